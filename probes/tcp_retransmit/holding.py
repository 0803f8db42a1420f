"""Who holds each socket, by inode: looked for once, then looked after."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.tcp_retransmit import namespaces

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.readings import Process

# A socket that nobody was found to hold is looked for again each so many looks only.
_PATIENCE = 6


class Holding:
    """Holders of socket inodes. Of several the oldest process, the one that forked, is taken."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Process, str]] = {}
        self._nobodys: dict[int, int] = {}
        self._looks = 0

    def get(self, inode: int) -> Process | None:
        """The process that held it at the last look."""
        held = self._held.get(inode)
        return None if held is None else held[0]

    def processes(self) -> set[Process]:
        """Everyone that holds a socket."""
        return {process for process, _ in self._held.values()}

    def refresh(self, present: set[int], likely: Iterable[int]) -> None:
        """Look after what is known, search for the rest: first among `likely` pids, then among all.

        One readlink for each known socket; a search for those that are new or were let go.
        """
        self._looks += 1
        self._held = {
            inode: (process, path)
            for inode, (process, path) in self._held.items()
            if inode in present and _is(path, inode)
        }
        self._nobodys = {
            inode: since
            for inode, since in self._nobodys.items()
            if inode in present and self._looks - since < _PATIENCE
        }
        missing = present - set(self._held) - set(self._nobodys)
        missing -= self._search(missing, likely)
        if missing:
            missing -= self._search(missing, Procfs().pids())
        self._nobodys.update(dict.fromkeys(missing, self._looks))

    def learn(self, present: set[int], pids: Iterable[int]) -> None:
        """Search among these pids only."""
        self._search(present - set(self._held), pids)

    def _search(self, missing: set[int], pids: Iterable[int]) -> set[int]:
        """Which of them were found."""
        if not missing:
            return set()
        left = set(missing)
        running = [process for process in map(Procfs().identify, pids) if process is not None]
        for process in sorted(running, key=lambda process: (process.start_ticks, process.pid)):
            if not left:
                break
            held = namespaces.socket_inodes(process.pid)
            for inode in left & set(held):
                self._held[inode] = (process, held[inode])
            left -= set(held)
        return missing - left


def _is(path: str, inode: int) -> bool:
    try:
        return os.readlink(path) == f"socket:[{inode}]"  # noqa: PTH115 - one for each socket
    except OSError:
        return False  # closed, or its process has ended
