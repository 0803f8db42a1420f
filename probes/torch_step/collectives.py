"""The sequences of collectives of processes that mark no steps, and their periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.torch_step.period import Sequence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.readings import Process
    from probes.torch_step.period import Period
    from probes.torch_step.thread import Collective

# Searching a window of 1,024 takes 4 ms: of so many processes in a flush, in turn.
SEARCHES = 4


class Rhythms:
    """One bounded sequence per process. `capacity`: collectives that are kept of each."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sequences: dict[int, Sequence] = {}
        self._reported: dict[int, int] = {}
        self._periods: dict[int, Period | None] = {}
        self._turn: dict[int, None] = {}

    def add(self, collectives: Iterable[Collective]) -> None:
        """Collectives were issued."""
        for each in collectives:
            sequence = self._sequences.get(each.pid)
            if sequence is None:
                sequence = self._sequences[each.pid] = Sequence(self._capacity)
            sequence.add(each.operation, each.time_ns)

    def search(self, processes: Iterable[Process]) -> None:
        """Look for the period of the next few of `processes`, those that mark no steps."""
        self._turn.update({each.pid: None for each in processes if each.pid in self._sequences})
        for pid in list(self._turn)[:SEARCHES]:
            del self._turn[pid]
            self._periods[pid] = self._sequences[pid].period()

    def period(self, process: Process) -> Period | None:
        """The period as found last; None where there is none, or nothing was issued since."""
        sequence = self._sequences.get(process.pid)
        if sequence is None or self._reported.get(process.pid) == sequence.total:
            return None
        self._reported[process.pid] = sequence.total
        return self._periods.get(process.pid)

    def forget(self, pid: int) -> None:
        """The process has gone, or marks its steps."""
        for table in (self._sequences, self._reported, self._periods, self._turn):
            table.pop(pid, None)
