"""Processes that own TCP sockets: who they are, when they came, when they went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Process
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

    def runs(self) -> bool:
        """Whether it has not ended."""
        return Procfs().alive(self.process)


def read_owner(pid: int) -> Owner | None:
    """Look at a process now; None when it has ended."""
    stat = Procfs().stat(pid)
    if stat is None:
        return None
    process = Process(pid, stat.start_ticks)
    return Owner(process, stat.comm, namespaces.network_namespace(pid) or 0)


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
        gone = [owner for owner in self._by_pid.values() if not owner.runs()]
        for owner in gone:
            del self._by_pid[owner.process.pid]
        return gone


def holders(inodes: set[int], pids: Iterable[int]) -> dict[int, int]:
    """Which process holds each socket inode: {inode: pid}.

    A socket that was inherited over fork has several holders; the oldest process, the one that
    forked, is taken.
    """
    found: dict[int, int] = {}
    running = [process for process in map(Procfs().identify, pids) if process is not None]
    missing = set(inodes)
    for process in sorted(running, key=lambda process: (process.start_ticks, process.pid)):
        if not missing:
            break
        held = missing & namespaces.socket_inodes(process.pid)
        found.update(dict.fromkeys(held, process.pid))
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
