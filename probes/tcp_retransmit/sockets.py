"""The user-space half: sockets that existed before, segments, loss probes, by namespace."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Count
from probes.tcp_retransmit import namespaces, owners, sockdiag
from probes.tcp_retransmit.segments import Segments

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from engine.readings import Process
    from probes.tcp_retransmit.flow import Connection
    from probes.tcp_retransmit.owners import Owner, Owners
    from probes.tcp_retransmit.sockdiag import TcpSocket

LOSS_PROBES = "tcp_loss_probes_total"


class Sockets:
    """Asks each network namespace that an owner lives in.

    `overflows`: times that the kernel dropped destroy messages; a closing socket's tail may have
    been among them. `refused`: namespaces that could not be entered at the last look.
    """

    def __init__(self, known: Owners) -> None:
        self._owners = known
        self._segments = Segments()
        self._listeners: dict[int, socket.socket] = {}
        self._representative: dict[int, Process] = {}
        self._probes: dict[int, int] = {}
        self._by_connection: dict[tuple[int, Connection], Process] = {}
        self._holding: dict[int, Process] = {}
        self.overflows = 0
        self.refused = 0

    def scan_all(self) -> dict[Connection, Process]:
        """Every namespace of the node once: owners of the connections that exist now.

        Their segments count from here.
        """
        pids = Procfs().pids()
        everywhere = namespaces.namespaces_of(pids)
        found, self.refused = namespaces.visit(everywhere, sockdiag.tcp_sockets)
        self._segments.baseline(found)
        inodes = {each.inode for listed in found.values() for each in listed} - {0}
        self._holding.update(owners.holders(inodes, pids))
        for namespace, pid in everywhere.items():
            total = _netstat(pid)
            if total is not None:
                self._probes[namespace] = total
        return owners.connections_by_process(found, self._holding)

    def find(self, wanted: set[Connection]) -> dict[Connection, Process]:
        """Owners of connections that nobody was seen to use."""
        pids = Procfs().pids()
        found, self.refused = namespaces.visit(namespaces.namespaces_of(pids), sockdiag.tcp_sockets)
        cut = {
            namespace: [each for each in listed if each.connection in wanted]
            for namespace, listed in found.items()
        }
        inodes = {each.inode for listed in cut.values() for each in listed} - {0}
        return owners.connections_by_process(cut, owners.holders(inodes, pids))

    def remember(self, namespace: int, connection: Connection, process: Process) -> None:
        """A retransmit told who owns a connection: of use if it closes before it is listed."""
        self._by_connection[namespace, connection] = process

    def poll(self) -> None:
        """Hear of destroyed sockets; let go of namespaces whose processes have all gone."""
        for namespace, listener in list(self._listeners.items()):
            heard, overflows = sockdiag.read_destroyed(listener)
            self.overflows += overflows
            self._segments.close(namespace, heard, self._owner_of)
            if not self._is_alive(namespace):
                listener.close()
                del self._listeners[namespace]

    def _is_alive(self, namespace: int) -> bool:
        process = self._representative.get(namespace)
        if process is not None and Procfs().alive(process):
            return True
        for owner in self._owners.all():
            if owner.namespace == namespace and owner.runs():
                self._representative[namespace] = owner.process
                return True
        return False

    def collect(self) -> list[Count]:
        """Segments by owner and loss probes by namespace since the last call."""
        living = self._namespaces()
        found, self.refused = namespaces.visit(
            {inode: owner.process.pid for inode, owner in living.items()}, self._ask
        )
        self._hold(found)
        self.poll()
        for namespace, listed in found.items():
            self._segments.see(namespace, listed, self._owner_of)
        for namespace in set(self._representative) - set(living):
            self._segments.forget(namespace)
            self._representative.pop(namespace)
        self._by_connection.clear()
        return [*self._segments.drain(), *self._loss_probes(living)]

    def _namespaces(self) -> dict[int, Owner]:
        """Namespaces with their oldest living owner, who also stands for its loss probes."""
        living: dict[int, Owner] = {}
        for owner in self._owners.all():
            if owner.namespace and owner.runs():
                living.setdefault(owner.namespace, owner)
                self._representative.setdefault(owner.namespace, owner.process)
        return living

    def _ask(self) -> list[TcpSocket]:
        here = namespaces.network_namespace("thread-self") or 0
        if here not in self._listeners:
            with contextlib.suppress(OSError):  # a kernel before 4.4: tails are lost
                self._listeners[here] = sockdiag.open_destroy_listener()
        return sockdiag.tcp_sockets()

    def _hold(self, found: dict[int, list[TcpSocket]]) -> None:
        """Learn who holds inodes that are new; forget those that no longer exist."""
        present = {each.inode for listed in found.values() for each in listed} - {0}
        self._holding = {i: who for i, who in self._holding.items() if i in present}
        missing = present - set(self._holding)
        if missing:
            pids: Iterable[int] = [owner.process.pid for owner in self._owners.all()]
            self._holding.update(owners.holders(missing, pids))

    def _owner_of(self, namespace: int, each: TcpSocket) -> Process | None:
        process = self._holding.get(each.inode)
        if process is None:
            process = self._by_connection.get((namespace, each.connection))
        owner = None if process is None else self._owners.of(process)
        return None if owner is None else owner.process

    def _loss_probes(self, living: dict[int, Owner]) -> list[Count]:
        """The node's own namespace, which many tasks share, counts for the node alone."""
        shared = namespaces.shared_namespaces()
        counts = []
        for namespace, owner in living.items():
            total = _netstat(owner.process.pid)
            if total is None:
                continue
            # A namespace that was not there when the agent started counts from 0.
            delta = total - self._probes.get(namespace, 0)
            self._probes[namespace] = total
            if delta > 0:
                process = None if namespace in shared else owner.process
                counts.append(Count(LOSS_PROBES, process, float(delta)))
        return counts

    def close(self) -> None:
        """Let go of every namespace."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()


def _netstat(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/net/netstat").read_text(encoding="ascii")
    except OSError:
        return None
    return namespaces.loss_probes(text)
