"""How long the threads of a process were in blocking calls, open ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.readings import Process


@dataclass(slots=True)
class Waits:
    """Nanoseconds by process and operation.

    `add` takes what calls that returned took; `settle` adds those that are open and gives what came
    since the last settlement, so that a wait that spans flushes is told in each of them, once.
    Blocking calls do not nest in a thread. Threads that wait at the same time would count twice, so
    that a process is bounded by the time that passed.
    """

    _closed: dict[tuple[Process, str], int] = field(default_factory=dict)
    _told: dict[tuple[Process, str], int] = field(default_factory=dict)
    _settled: dict[Process, int] = field(default_factory=dict)

    def join(self, process: Process, now: int) -> None:
        """A process is watched from now on."""
        self._settled.setdefault(process, now)

    def add(self, process: Process, operation: str, nanoseconds: int) -> None:
        """Calls that returned took so long together; of who is watched, as others never leave."""
        if process in self._settled:
            key = process, operation
            self._closed[key] = self._closed.get(key, 0) + nanoseconds

    def settle(
        self, process: Process, open_ns: Mapping[str, int], now: int
    ) -> tuple[dict[str, int], int]:
        """(waited by operation since the last settlement, length of that time).

        `open_ns`: by operation, how long its calls that have not returned have taken so far.
        """
        length = now - self._settled.get(process, now)
        self._settled[process] = now
        operations = {op for owner, op in (*self._closed, *self._told) if owner == process}
        waited: dict[str, int] = {}
        for operation in sorted(operations | open_ns.keys()):
            key = process, operation
            total = self._closed.get(key, 0) + open_ns.get(operation, 0)
            delta = total - self._told.get(key, 0)
            # Less than before: an open call was given up, after it had been told of.
            self._told[key] = total
            if delta > 0:
                waited[operation] = delta
        whole = sum(waited.values())
        if whole > length:
            waited = {op: part * length // whole for op, part in waited.items()}
        return waited, length

    def leave(self, process: Process) -> None:
        """It has ended and was settled for the last time."""
        self._settled.pop(process, None)
        for table in (self._closed, self._told):
            for key in [key for key in table if key[0] == process]:
                del table[key]
