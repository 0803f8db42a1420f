"""Which watched process forked which child, for children that came and went between two polls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.readings import Process


class Parents:
    """The newest forks by the child's pid; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._parents: dict[int, Process] = {}

    def of(self, pid: int) -> Process | None:
        """The process that forked a pid, if it runs no program of its own since."""
        return self._parents.get(pid)

    def note(self, pid: int, parent: Process, most: int) -> None:
        """A process forked; `most` forks are remembered."""
        self._parents.pop(pid, None)  # to the end of the order
        self._parents[pid] = parent
        while len(self._parents) > most:
            del self._parents[next(iter(self._parents))]

    def forget(self, pid: int) -> None:
        """It runs a program of its own, or is somebody else's."""
        self._parents.pop(pid, None)
