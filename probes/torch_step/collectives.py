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
        self._sequences: dict[Process, Sequence] = {}
        self._reported: dict[Process, int] = {}
        self._periods: dict[Process, Period | None] = {}
        self._turn: dict[Process, None] = {}

    def add(self, process: Process, collective: Collective) -> None:
        """It issued a collective."""
        sequence = self._sequences.get(process)
        if sequence is None:
            sequence = self._sequences[process] = Sequence(self._capacity)
        sequence.add(collective.operation, collective.time_ns)

    def search(self, processes: Iterable[Process]) -> None:
        """Look for the period of the next few of `processes`, those that mark no steps."""
        self._turn.update({each: None for each in processes if each in self._sequences})
        for process in list(self._turn)[:SEARCHES]:
            del self._turn[process]
            self._periods[process] = self._sequences[process].period()

    def period(self, process: Process) -> Period | None:
        """The period as found last; None where there is none, or nothing was issued since."""
        sequence = self._sequences.get(process)
        if sequence is None or self._reported.get(process) == sequence.total:
            return None
        self._reported[process] = sequence.total
        return self._periods.get(process)

    def forget(self, process: Process) -> None:
        """The process has gone, or marks its steps."""
        for table in (self._sequences, self._reported, self._periods, self._turn):
            table.pop(process, None)
