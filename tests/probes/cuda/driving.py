"""Does with the probe what the agent does, and adds up what it emits."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from engine.readings import Count, Event, Level, ProbeOptions, Reading
from probes.cuda.probe import CudaProbe
from probes.functions.reporting import Reporting

if TYPE_CHECKING:
    from probes.functions.sites import FunctionSites


class Driver:
    """A probe in this thread. Others may use CUDA meanwhile: all sums are of one process."""

    def __init__(self, **settings: object) -> None:
        self.probe = CudaProbe()
        self.readings: list[Reading] = []
        self.consumed: Counter[str] = Counter()
        # Exact counts: on a slow machine every test's load would be over the budget.
        settings = {"budget": {"enabled": False}, **settings}
        self.status = self.probe.start(ProbeOptions(settings), self._take)

    def _take(self, reading: Reading) -> None:
        self.readings.append(reading)
        if isinstance(reading, Count | Level | Event):
            self.consumed[reading.stream] += reading.weight

    def attach(self) -> None:
        """Until all that is mapped is probed."""
        self.probe.poll()
        while self.probe.running is not None and self.probe.running.pending:
            self.probe.poll()
        self.flush()

    def flush(self) -> list[Reading]:
        """Readings since the last flush."""
        self.probe.poll()
        self.probe.collect()
        readings = self.readings.copy()
        self.readings.clear()
        return readings

    def pass_(self, seconds: float) -> None:
        """Let time pass as the agent does, polling twice a second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(0.5, max(0.0, end - time.monotonic())))
            self.probe.poll()

    @property
    def sites(self) -> FunctionSites:
        """What is probed."""
        assert isinstance(self.probe.running, Reporting)
        return self.probe.running.followed.sites

    @property
    def produced(self) -> dict[str, int]:
        """By stream."""
        return dict(self.probe.produced().produced)

    @property
    def lost(self) -> dict[tuple[str, str], int]:
        """By stream and reason."""
        return dict(self.probe.produced().lost)


def totals(readings: list[Reading], metric: str, pid: int) -> Counter[str]:
    """Counters of a process, by the values of their labels in order."""
    found: Counter[str] = Counter()
    for each in readings:
        if isinstance(each, Count) and each.metric == metric and of(each, pid):
            found[" ".join(value for _, value in each.labels)] += int(each.delta)
    return found


def held(readings: list[Reading], pid: int) -> dict[str, int]:
    """Bytes by kind of memory."""
    levels = [each for each in readings if isinstance(each, Level) and of(each, pid)]
    own = [each for each in levels if each.metric == "cuda_memory_bytes"]
    return {dict(each.labels)["kind"]: int(each.value) for each in own}


def slow(readings: list[Reading], pid: int) -> list[dict[str, object]]:
    """The fields of slow calls."""
    return [dict(each.fields) for each in readings if isinstance(each, Event) and of(each, pid)]


def of(reading: Count | Level | Event, pid: int) -> bool:
    """Whether a reading is about a process."""
    return reading.process is not None and reading.process.pid == pid
