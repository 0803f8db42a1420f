"""The compiled stand-in for NCCL, jobs that use it, and the probe. The real one: tests/e2e."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.probes.job import Job
from tests.probes.nccl.building import build
from tests.probes.nccl.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# Flushes follow each other within milliseconds here, so that a rate means nothing to a budget.
SETTINGS = {"slow_init_seconds": 0.1, "events": 6, "sequence": True, "budget": {"enabled": False}}


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


@pytest.fixture(scope="session")
def running(stand_in: Path) -> Iterator[Driver]:
    """One probe for all tests, and a job that keeps the libraries in use: attaching to a hundred
    places takes a second, letting go of them ten.
    """
    driver = Driver(**SETTINGS)
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
