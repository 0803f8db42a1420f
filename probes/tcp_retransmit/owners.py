"""Processes that own TCP sockets: who they are, when they came, when they went."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.aggregate.procfs import CLOCK_TICKS_PER_SECOND, Procfs
from engine.readings import Process
from probes.tcp_retransmit import namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from probes.tcp_retransmit.flow import Connection, User
    from probes.tcp_retransmit.holding import Holding
    from probes.tcp_retransmit.sockdiag import TcpSocket

# How many flushes the owner of a dead process's sockets is remembered: TCP goes on for it.
GRAVE_FLUSHES = 6


@dataclass(frozen=True, slots=True)
class Owner:
    """A process with a TCP socket. `namespace`: inode of its network namespace, 0 unknown."""

    process: Process
    comm: str
    namespace: int

    def runs(self) -> bool:
        """Whether it has not ended."""
        return Procfs().alive(self.process)

    def started_ns(self) -> int:
        """CLOCK_MONOTONIC, cut to a tick: never after anything that the process did.

        /proc/PID/stat counts from boot, time asleep included (proc(5)).
        """
        asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        return self.process.start_ticks * (1_000_000_000 // CLOCK_TICKS_PER_SECOND) - asleep


def read_owner(pid: int) -> Owner | None:
    """Look at a process now; None when it has ended."""
    stat = Procfs().stat(pid)
    if stat is None:
        return None
    process = Process(pid, stat.start_ticks)
    return Owner(process, stat.comm, namespaces.network_namespace(pid) or 0)


class Owners:
    """Known owners by pid, those that ended within the last flushes too.

    A pid that starts again is another process.
    """

    def __init__(self) -> None:
        self._by_pid: dict[int, Owner] = {}
        self._graves: dict[int, list[tuple[Owner, int]]] = {}
        self._flushes = 0

    def __len__(self) -> int:
        return len(self._by_pid)

    def get(self, pid: int) -> Owner | None:
        """The owner that is known under a pid."""
        return self._by_pid.get(pid)

    def of(self, process: Process) -> Owner | None:
        """The owner that a process is, dead or alive."""
        known = self._by_pid.get(process.pid)
        buried = (owner for owner, _ in self._graves.get(process.pid, ()))
        return next((o for o in (known, *buried) if o is not None and o.process == process), None)

    def at(self, user: User) -> Owner | None:
        """Who a user of a socket was: of the processes that had the pid, the one of that time."""
        known = self._by_pid.get(user.pid)
        buried = [owner for owner, _ in self._graves.get(user.pid, ())]
        candidates = [owner for owner in (known, *reversed(buried)) if owner is not None]
        return next((o for o in candidates if o.started_ns() <= user.since_ns), None)

    def all(self) -> list[Owner]:
        """Every living owner, the oldest process first."""
        return sorted(self._by_pid.values(), key=lambda o: (o.process.start_ticks, o.process.pid))

    def meet(self, pid: int) -> tuple[Owner | None, Owner | None]:
        """Look at a pid: (new owner, owner whose pid it took), None where nothing changed."""
        known = self._by_pid.get(pid)
        now = read_owner(pid)
        if now is None or (known is not None and known.process == now.process):
            return None, None
        self._by_pid[pid] = now
        if known is not None:
            self._bury(known)
        return now, known

    def remove_gone(self) -> list[Owner]:
        """Forget processes that ended; they are returned. Called once a flush."""
        self._flushes += 1
        gone = [owner for owner in self._by_pid.values() if not owner.runs()]
        for owner in gone:
            del self._by_pid[owner.process.pid]
            self._bury(owner)
        for pid, buried in list(self._graves.items()):
            kept = [(owner, until) for owner, until in buried if until >= self._flushes]
            if kept:
                self._graves[pid] = kept
            else:
                del self._graves[pid]
        return gone

    def _bury(self, owner: Owner) -> None:
        until = self._flushes + GRAVE_FLUSHES
        self._graves.setdefault(owner.process.pid, []).append((owner, until))


def connections_by_process(
    sockets: Mapping[int, list[TcpSocket]], holding: Holding
) -> dict[Connection, Process]:
    """Owners of connections; one that two namespaces share with different owners has none."""
    found: dict[Connection, Process] = {}
    ambiguous: set[Connection] = set()
    for listed in sockets.values():
        for each in listed:
            process = holding.get(each.inode)
            if process is None:
                continue
            if found.setdefault(each.connection, process) != process:
                ambiguous.add(each.connection)
    return {at: process for at, process in found.items() if at not in ambiguous}
