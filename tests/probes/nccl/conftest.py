"""The compiled stand-in for NCCL, jobs that use it, and the probe. The real one: tests/e2e."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Event, Level, ProbeOptions
from probes.nccl.probe import NcclProbe
from tests.probes.nccl.building import Job, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.readings import Reading


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job; its libraries lie beside it."""
    return build(tmp_path_factory.mktemp("nccl"))


@pytest.fixture
def start(stand_in: Path) -> Iterator[Callable[..., Job]]:
    """Start jobs; they are killed afterwards."""
    jobs: list[Job] = []

    def run(*prefix: str, path: Path = stand_in, **environment: str) -> Job:
        jobs.append(Job(path, *prefix, **environment))
        return jobs[-1]

    yield run
    for job in jobs:
        job.end()


class Driver:
    """Does with the probe what the agent does, and adds up what it says of each process."""

    def __init__(self, **settings: object) -> None:
        self.probe = NcclProbe()
        self.readings: list[Reading] = []
        self.all: list[Reading] = []
        self.status = self.probe.start(ProbeOptions(settings), self._take)

    def _take(self, reading: Reading) -> None:
        self.readings.append(reading)
        self.all.append(reading)

    def flush(self) -> list[Reading]:
        self.readings.clear()
        self.probe.poll()
        self.probe.collect()
        return self.readings.copy()

    def attach(self) -> None:
        """Flush until every file that is mapped is probed."""
        self.flush()
        while self.probe._watch is not None and self.probe._sites._pending:
            self.probe.poll()

    def total(self, metric: str, pid: int, **labels: str) -> float:
        """Of a counter since the start, summed over the labels that are not given."""
        wanted = set(labels.items())
        return sum(
            each.delta
            for each in self.all
            if isinstance(each, Count)
            and each.metric == metric
            and each.process
            and each.process.pid == pid
            and wanted <= set(each.labels)
        )

    def level(self, metric: str, pid: int, **labels: str) -> list[float]:
        """The values of a gauge in the last flush."""
        wanted = set(labels.items())
        return [
            each.value
            for each in self.readings
            if isinstance(each, Level)
            and each.metric == metric
            and each.process
            and each.process.pid == pid
            and wanted <= set(each.labels)
        ]

    def events(self, pid: int) -> list[tuple[str, dict[str, object]]]:
        """The kind and fields of every event of a process since the start."""
        return [
            (each.kind, dict(each.fields))
            for each in self.all
            if isinstance(each, Event) and each.process and each.process.pid == pid
        ]


@pytest.fixture(scope="session")
def running(stand_in: Path) -> Iterator[Driver]:
    """One probe for all tests, and a job that keeps the libraries in use: attaching to a hundred
    places takes a second, letting go of them ten.
    """
    driver = Driver(slow_init_seconds=0.1, events=6, sequence=True)
    anchor = Job(stand_in)
    driver.attach()
    yield driver
    anchor.end()
    driver.probe.stop()


@pytest.fixture
def driver(running: Driver) -> Driver:
    assert running.status.state != "off", running.status
    running.all.clear()
    return running
