"""Runs the probe of NCCL as the agent does, and adds up what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Count, Event, Level, ProbeOptions
from probes.nccl.probe import NcclProbe
from probes.nccl.running import NcclRunning

if TYPE_CHECKING:
    from engine.readings import Reading


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
        while self.probe.running is not None and self.probe.running.pending:
            self.probe.poll()

    @property
    def running(self) -> NcclRunning:
        """What runs."""
        assert isinstance(self.probe.running, NcclRunning)
        return self.probe.running

    def total(self, metric: str, pid: int, **labels: str) -> float:
        """Of a counter since the start, summed over the labels that are not given."""
        counts = [each for each in self.all if isinstance(each, Count)]
        return sum(each.delta for each in counts if is_of(each, metric, pid, labels))

    def level(self, metric: str, pid: int, **labels: str) -> list[float]:
        """The values of a gauge in the last flush."""
        levels = [each for each in self.readings if isinstance(each, Level)]
        return [each.value for each in levels if is_of(each, metric, pid, labels)]

    def events(self, pid: int) -> list[tuple[str, dict[str, object]]]:
        """The kind and fields of every event of a process since the start."""
        return [
            (each.kind, dict(each.fields))
            for each in self.all
            if isinstance(each, Event) and each.process and each.process.pid == pid
        ]


def is_of(each: Count | Level, metric: str, pid: int, labels: dict[str, str]) -> bool:
    """Whether a reading is of a metric and a process, with these labels among its own."""
    own = each.process is not None and each.process.pid == pid
    return own and each.metric == metric and labels.items() <= dict(each.labels).items()
