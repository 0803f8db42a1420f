"""The user-space half: sockets that exist, by namespace, with their figures and their owners."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Count, Gone, Level, Watched
from probes.tcp_retransmit import mib, namespaces, owners, sockdiag
from probes.tcp_retransmit.check import Check
from probes.tcp_retransmit.gauges import Gauges
from probes.tcp_retransmit.holding import Holding
from probes.tcp_retransmit.totals import Totals
from rules.slotted import dataclass

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping

    from engine.readings import Pairs, Process, Reading
    from probes.tcp_retransmit.flow import Connection
    from probes.tcp_retransmit.owners import Owner, Owners
    from probes.tcp_retransmit.sockdiag import TcpSocket

LOSS_PROBES, KERNEL = "tcp_loss_probes_total", "tcp_kernel_total"
LOOK_SECONDS = "tcp_look_seconds"
# Each so many looks ask every namespace of the node: a process that only receives, where nobody
# connects or sends, is met then.
_DISCOVER = 6
# Dead namespaces are looked for each time that so many more are remembered.
_SLACK = 64


@dataclass(frozen=True, slots=True)
class Looking:
    """How often sockets are listed: not before `interval_seconds`, and never so often that it takes
    more than `share` of one CPU. `detail_limit`: connections told one by one.
    """  # noqa: D205 - one sentence

    interval_seconds: float = 0.0
    share: float = 0.005
    detail_limit: int = 20


def met(
    new: Owner | None, replaced: Owner | None, counters: tuple[tuple[str, Pairs], ...]
) -> Iterator[Reading]:
    """What is told of an owner that is new, and of the one whose pid it took."""
    if replaced is not None:
        yield Gone(replaced.process)
    if new is not None:
        # In a namespace of the node's, loss probes are nobody's own: a task's 0 would claim that
        # it has none.
        shared = new.namespace in namespaces.shared_namespaces()
        yield Watched(new.process, counters if shared else (*counters, (LOSS_PROBES, ())))


class Sockets:
    """Asks each network namespace that an owner lives in.

    `overflows`: times that the kernel dropped destroy messages; a closing socket's tail may have
    been among them. `refused`: namespaces that could not be entered at the last look. `check`: what
    the kernel counted and sockets did not.
    """

    def __init__(
        self, known: Owners, looking: Looking | None = None, discover_looks: int = _DISCOVER
    ) -> None:
        self._discover_looks = discover_looks
        self._owners = known
        self._looking = looking or Looking()
        self._totals = Totals()
        self._gauges = Gauges(self._looking.detail_limit)
        self._holding = Holding()
        self._mib = mib.Namespaces()
        self._listeners: dict[int, socket.socket] = {}
        self._representative: dict[int, Process] = {}
        self._by_connection: dict[tuple[int, Connection], Process] = {}
        self._most = _SLACK
        self._next_look = 0.0
        self._look_seconds = 0.0
        self._looks = 0
        self.meet: Callable[[int], None] = lambda _pid: None
        self.closed_by: Callable[[bytes], Process | None] = lambda _endpoints: None
        self.check = Check()
        self.overflows = 0
        self.refused = 0

    def scan_all(self) -> dict[Connection, Process]:
        """Every namespace of the node once: owners of the connections that exist now.

        Their figures count from here.
        """
        pids = Procfs().pids()
        everywhere = namespaces.namespaces_of(pids)
        found, self.refused = namespaces.visit(everywhere, sockdiag.tcp_sockets)
        self._totals.baseline(found)
        self._holding.learn(_inodes(found), pids)
        for namespace, pid in everywhere.items():
            values = mib.read(pid)
            if values is not None:
                self._mib.baseline(namespace, values)
        return owners.connections_by_process(found, self._holding)

    def find(self, wanted: set[Connection]) -> dict[Connection, Process]:
        """Owners of connections that nobody was seen to use."""
        pids = Procfs().pids()
        found, self.refused = namespaces.visit(namespaces.namespaces_of(pids), sockdiag.tcp_sockets)
        cut = {
            namespace: [each for each in listed if each.connection in wanted]
            for namespace, listed in found.items()
        }
        self._holding.learn(_inodes(cut), pids)
        return owners.connections_by_process(cut, self._holding)

    def remember(self, namespace: int, connection: Connection, process: Process) -> None:
        """A retransmit told who owns a connection: of use if it closes before it is listed."""
        self._by_connection[namespace, connection] = process

    def poll(self) -> None:
        """Hear of destroyed sockets; let go of namespaces whose processes have all gone."""
        for namespace, listener in list(self._listeners.items()):
            heard, overflows = sockdiag.read_destroyed(listener)
            self.overflows += overflows
            self._totals.close(namespace, heard, self._owner_of_closed)
            self.check.close(namespace, heard, overflows)
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

    def collect(self) -> Iterator[Reading]:
        """Figures by owner and by namespace since the last call."""
        living = self._namespaces()
        if time.monotonic() >= self._next_look:
            began = time.monotonic()
            yield from self._look(living)
            self._look_seconds = time.monotonic() - began
            pause = max(self._looking.interval_seconds, self._look_seconds / self._looking.share)
            self._next_look = began + pause
        else:
            self.poll()
        for namespace in set(self._representative) - set(living):
            self._totals.forget(namespace)
            self.check.forget(namespace)
            self._representative.pop(namespace)
        self._by_connection.clear()
        yield from self._totals.drain()
        yield from self._gauges.levels()
        comm_of = {owner.process: owner.comm for owner in self._owners.all()}
        yield from self._gauges.events(comm_of)
        yield from self._of_namespaces(living)
        yield Level(LOOK_SECONDS, None, self._look_seconds)

    def _look(self, living: Mapping[int, Owner]) -> Iterator[Reading]:
        """List all sockets of the owners' namespaces, in each after its counters."""
        asked = {inode: owner.process.pid for inode, owner in living.items()}
        if self._looks % self._discover_looks == 0:
            asked = {**namespaces.namespaces_of(Procfs().pids()), **asked}
        self._looks += 1
        found, self.refused = namespaces.visit(asked, self._ask)
        listed = {namespace: sockets for namespace, (_, sockets) in found.items()}
        self._holding.refresh(_inodes(listed), [owner.process.pid for owner in self._owners.all()])
        for holder in self._holding.processes():
            if self._owners.of(holder) is None:
                self.meet(holder.pid)
        self.poll()
        owned = []
        for namespace, (counters, sockets) in found.items():
            self._totals.see(namespace, sockets, self._owner_of)
            yield from self.check.see(namespace, counters, sockets)
            for each in sockets:
                process = self._totals.owner(namespace, each.cookie)
                if process is not None:
                    owned.append((namespace, process, each))
        self._gauges.look(owned)

    def _namespaces(self) -> dict[int, Owner]:
        """Namespaces with their oldest living owner, who also stands for what is theirs."""
        living: dict[int, Owner] = {}
        for owner in self._owners.all():
            if owner.namespace and owner.runs():
                living.setdefault(owner.namespace, owner)
                self._representative.setdefault(owner.namespace, owner.process)
        return living

    def _ask(self) -> tuple[dict[str, int], list[TcpSocket]]:
        here = namespaces.network_namespace("thread-self") or 0
        if here not in self._listeners:
            with contextlib.suppress(OSError):  # a kernel before 4.4: tails are lost
                self._listeners[here] = sockdiag.open_destroy_listener()
        return mib.read("thread-self") or {}, sockdiag.tcp_sockets()

    def _owner_of(self, namespace: int, each: TcpSocket) -> Process | None:
        process = self._holding.get(each.inode)
        if process is None and self._by_connection:
            process = self._by_connection.get((namespace, each.connection))
        owner = None if process is None else self._owners.of(process)
        return None if owner is None else owner.process

    def _owner_of_closed(self, namespace: int, each: TcpSocket) -> Process | None:
        return self._owner_of(namespace, each) or self.closed_by(each.endpoints)

    def _of_namespaces(self, living: Mapping[int, Owner]) -> Iterator[Count]:
        """The node's own namespace, which many tasks share, counts for the node alone."""
        shared = namespaces.shared_namespaces()
        for namespace, owner in living.items():
            values = mib.read(owner.process.pid)
            if values is None:
                continue
            process = None if namespace in shared else owner.process
            grown = self._mib.grow(namespace, values)
            if grown.get(mib.LOSS_PROBES):
                yield Count(LOSS_PROBES, process, float(grown[mib.LOSS_PROBES]))
            for name in mib.TOLD:
                if name in grown:
                    yield Count(KERNEL, process, float(grown[name]), (("counter", name),))
        if len(self._mib) > self._most:
            self._mib.keep(set(namespaces.namespaces_of(Procfs().pids())))
            self._most = len(self._mib) + _SLACK

    def close(self) -> None:
        """Let go of every namespace."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()


def _inodes(found: Mapping[int, list[TcpSocket]]) -> set[int]:
    return {each.inode for listed in found.values() for each in listed} - {0}
