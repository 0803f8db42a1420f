"""Processes that own TCP sockets: who they are, when they came, when they went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.readings import Process
from probes.bpf.tracefs import start_ticks
from probes.tcp_retransmit import namespaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from probes.tcp_retransmit.flow import Connection
    from probes.tcp_retransmit.sockdiag import TcpSocket


@dataclass(frozen=True, slots=True)
class Owner:
    """A process with a TCP socket. `namespace`: inode of its network namespace, 0 unknown."""

    process: Process
    comm: str
    namespace: int


def read_owner(pid: int) -> Owner | None:
    """Look at a process now; None when it has ended."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    try:
        comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return Owner(Process(pid, ticks), comm, namespaces.network_namespace(pid) or 0)


class Owners:
    """Known owners by pid. A pid that starts again is another process."""

    def __init__(self) -> None:
        self._by_pid: dict[int, Owner] = {}

    def __len__(self) -> int:
        return len(self._by_pid)

    def get(self, pid: int) -> Owner | None:
        """The owner that is known under a pid."""
        return self._by_pid.get(pid)

    def all(self) -> list[Owner]:
        """Every known owner, the oldest process first."""
        return sorted(self._by_pid.values(), key=lambda o: (o.process.start_ticks, o.process.pid))

    def meet(self, pid: int) -> tuple[Owner | None, Owner | None]:
        """Look at a pid: (new owner, owner whose pid it took), None where nothing changed."""
        known = self._by_pid.get(pid)
        now = read_owner(pid)
        if now is None or (known is not None and known.process == now.process):
            return None, None
        self._by_pid[pid] = now
        return now, known

    def remove_gone(self) -> list[Owner]:
        """Forget processes that ended; they are returned."""
        gone = [
            owner
            for owner in self._by_pid.values()
            if start_ticks(owner.process.pid) != owner.process.start_ticks
        ]
        for owner in gone:
            del self._by_pid[owner.process.pid]
        return gone


def holders(inodes: set[int], pids: Iterable[int]) -> dict[int, int]:
    """Which process holds each socket inode: {inode: pid}.

    A socket that was inherited over fork has several holders; the oldest process, the one that
    forked, is taken.
    """
    found: dict[int, int] = {}
    oldest_first = sorted((start_ticks(pid) or 0, pid) for pid in pids)
    missing = set(inodes)
    for _, pid in oldest_first:
        if not missing:
            break
        held = missing & namespaces.socket_inodes(pid)
        found.update(dict.fromkeys(held, pid))
        missing -= held
    return found


def connections_by_pid(
    sockets: Mapping[int, list[TcpSocket]], holding: Mapping[int, int]
) -> dict[Connection, int]:
    """Owners of connections; one that two namespaces share with different owners has none."""
    found: dict[Connection, int] = {}
    ambiguous: set[Connection] = set()
    for listed in sockets.values():
        for each in listed:
            pid = holding.get(each.inode)
            if pid is None:
                continue
            if found.setdefault(each.connection, pid) != pid:
                ambiguous.add(each.connection)
    return {at: pid for at, pid in found.items() if at not in ambiguous}
