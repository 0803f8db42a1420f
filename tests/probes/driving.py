"""Does with a probe of a library what the agent does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from engine.readings import Count, ProbeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Reading
    from probes.functions.probe import LibraryProbe
    from tests.probes.job import Job


class Driver:
    """A probe in this thread; `status`: what its start said."""

    def __init__(self, probe: LibraryProbe, **settings: object) -> None:
        self.probe = probe
        self.readings: list[Reading] = []
        self.status = probe.start(ProbeOptions(settings), self.readings.append)

    def attach(self) -> None:
        """Poll until all that is mapped is probed."""
        self.probe.poll()
        while self.probe.running is not None and self.probe.running.pending:
            self.probe.poll()

    def flush(self) -> list[Reading]:
        """What it says of the time since the last flush."""
        self.attach()
        self.probe.collect()
        readings = self.readings.copy()
        self.readings.clear()
        return readings


@contextlib.contextmanager
def keeping(driver: Driver, keeper: Job) -> Iterator[Driver]:
    """The probe, while a job keeps its library in use, so that this is attached once."""
    assert driver.status.state != "off", driver.status
    driver.flush()
    yield driver
    keeper.end()
    driver.probe.stop()


def by_operation(readings: list[Reading], pid: int, metric: str) -> dict[str, float]:
    """What a process's counter grew by, by its label `op`, "" where it has none."""
    found: dict[str, float] = {}
    counts = [each for each in readings if isinstance(each, Count) and each.metric == metric]
    for each in counts:
        if each.process and each.process.pid == pid and each.delta:
            op = dict(each.labels).get("op", "")
            found[op] = found.get(op, 0.0) + each.delta
    return found
