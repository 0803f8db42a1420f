"""`tcp_retransmit`: retransmits, connects, resets and segments of TCP, owned by process.

Metrics and events: README.md. The kernel half counts retransmits, connects and resets; sockets.py
reads what `tcp_info` and the kernel's own counters tell.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from engine.aggregate.procfs import Procfs
from engine.readings import Count, Gone, ProbeStatus, Produced, Watched
from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.tcp_retransmit import namespaces
from probes.tcp_retransmit.check import UNSEEN
from probes.tcp_retransmit.incidents import event
from probes.tcp_retransmit.kernel import RetransmitProgram
from probes.tcp_retransmit.limits import Limits, LimitSettings, looking_from_settings
from probes.tcp_retransmit.owners import Owners
from probes.tcp_retransmit.poller import TcpPoller
from probes.tcp_retransmit.sockets import Sockets, met
from probes.tcp_retransmit.tallies import (
    ABANDONED,
    CONNECT_SECONDS,
    FAILURES,
    connect_counts,
    histogram_names,
    other_counts,
)
from probes.tcp_retransmit.totals import COUNTERS as TOTALS

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Pairs, ProbeOptions, Process, Reading
    from probes.tcp_retransmit.flow import Connection, Flow, Record, User
    from probes.tcp_retransmit.owners import Owner
    from probes.tcp_retransmit.tallies import Tally

METRIC, PROBES = "tcp_retrans_total", "tcp_retrans_probes_total"
COUNTERS: tuple[tuple[str, Pairs], ...] = ((METRIC, ()), (PROBES, ()), *TOTALS)
_PENDING_LIMIT = 2_000  # events that wait for the next look at sock_diag
# Owners found in sock_diag are asked for again after so many flushes without use.
_FOUND_FLUSHES = 30


class TcpRetransmitProbe:
    """Joins what the kernel counted by socket with the processes that own the sockets."""

    name = "tcp_retransmit"
    Config: ClassVar[type[LimitSettings]] = LimitSettings

    def __init__(self) -> None:
        self._program: RetransmitProgram | None = None
        self._status = ProbeStatus(self.name, "off")
        self._emit: Callable[[Reading], None] = lambda _reading: None
        self._owners = Owners()
        self._sockets = Sockets(self._owners)
        self._newest: dict[int, int] = {}
        self._found: dict[Connection, tuple[Process, int]] = {}
        self._flushes = 0
        self._connecting: set[Process] = set()
        self._pending: list[Record] = []
        self._trust_pids = True
        self._poller: TcpPoller | None = None

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Attach, or poll where that cannot be, then look once at what exists."""
        self._emit = emit
        try:
            capabilities.require_bpf(capabilities.read_privileges())
            self._program = RetransmitProgram(Limits.from_settings(options.settings))
        except UnavailableError as error:
            looking = looking_from_settings(options.settings)
            self._poller = TcpPoller(self.name, looking, error, emit)
            return self._poller.start()
        self._trust_pids = capabilities.sees_kernel_pids()
        self._sockets = Sockets(self._owners, looking_from_settings(options.settings))
        self._sockets.closed_by = self._closed_by
        self._sockets.meet = self._meet
        self._keep(self._sockets.scan_all())
        self._status = self._present_status()
        return self._status

    def _present_status(self) -> ProbeStatus:
        notes = "; ".join(self._program.notes) if self._program is not None else ""
        if not self._trust_pids:
            return ProbeStatus(
                self.name,
                "degraded",
                "pid_namespace",
                "the kernel names processes by pids that this pid namespace does not show",
                "docker: --pid=host; Kubernetes: hostPID: true",
            )
        if not namespaces.may_enter():
            return ProbeStatus(
                self.name,
                "degraded",
                "missing_capability",
                "other network namespaces cannot be entered: no segments from containers",
                "add CAP_SYS_ADMIN (docker: --cap-add SYS_ADMIN)",
            )
        return ProbeStatus(self.name, "attached", detail=notes)

    def poll(self) -> None:
        """Meet new owners, hand out retransmits, hear of closed sockets."""
        if self._poller is not None:
            self._poller.poll()
        if self._program is None:
            return
        if self._trust_pids:
            for pid, newest in self._program.processes():
                if self._newest.get(pid) != newest:
                    self._newest[pid] = newest
                    self._meet(pid)
                    if self._owners.get(pid) is None:
                        # It ended before anybody looked, so that nothing else tells its end.
                        self._forget(pid)
        for record in self._program.records():
            owner = self._owner(record.flow)
            if owner is None and len(self._pending) < _PENDING_LIMIT:
                self._pending.append(record)
            else:
                self._emit(event(record, owner))
        self._sockets.poll()

    def _meet(self, pid: int) -> None:
        for reading in met(*self._owners.meet(pid), COUNTERS):
            self._emit(reading)

    def _keep(self, found: dict[Connection, Process]) -> None:
        """Remember owners that sock_diag told."""
        self._found.update({at: (process, self._flushes) for at, process in found.items()})
        for process in set(found.values()):
            self._meet(process.pid)

    def _user(self, user: User) -> Owner | None:
        if not (user.pid and self._trust_pids):
            return None
        if self._owners.at(user) is None:
            self._meet(user.pid)
        return self._owners.at(user)

    def _closed_by(self, endpoints: bytes) -> Process | None:
        user = None if self._program is None else self._program.closed_by(endpoints)
        owner = None if user is None else self._user(user)
        return None if owner is None else owner.process

    def _owner(self, flow: Flow) -> Owner | None:
        owner = self._user(flow.user)
        if owner is None and flow.connection in self._found:
            process, _ = self._found[flow.connection]
            self._found[flow.connection] = (process, self._flushes)
            owner = self._owners.of(process)
        return owner

    def produced(self) -> Produced:
        """The kernel's counters."""
        if self._poller is not None:
            return self._poller.produced()
        if self._program is None:
            return Produced(self.name)
        segments = (
            (("segments", "broadcast_lost"), self._sockets.overflows),
            (("segments", UNSEEN), self._sockets.check.difference[UNSEEN]),
        )
        produced = self._program.produced()  # first: it also sees what was skipped
        losses = (*self._program.lost(), *segments)
        return Produced(self.name, produced, losses, self._program.map_use())

    def collect(self) -> None:
        """Emit counts, segments and loss probes, then who has gone."""
        if self._poller is not None:
            self._poller.collect()
        if self._program is None:
            return
        self.poll()
        hits = self._program.hits()
        self._look_for([flow for flow, *_ in hits] + [record.flow for record in self._pending])
        self._count_hits(hits)
        self._count_connections(self._program)
        pending, self._pending = self._pending, []
        for record in pending:
            self._emit(event(record, self._owner(record.flow)))
        for reading in self._sockets.collect():
            self._emit(reading)
        self._drop_gone()
        self._flushes += 1

    def _count_hits(self, hits: list[tuple[Flow, int, int]]) -> None:
        by_process: dict[Process | None, list[int]] = defaultdict(lambda: [0, 0])
        for flow, every, probes in hits:
            owner = self._owner(flow)
            sums = by_process[None if owner is None else owner.process]
            sums[0] += every
            sums[1] += probes
            if owner is not None:
                self._sockets.remember(owner.namespace, flow.connection, owner.process)
        for process, (every, probes) in by_process.items():
            self._emit(Count(METRIC, process, float(every), weight=every))
            if probes:
                self._emit(Count(PROBES, process, float(probes)))

    def _count_connections(self, program: RetransmitProgram) -> None:
        by_process: dict[Process | None, list[Tally]] = defaultdict(list)
        for tally in program.tallies():
            owner = self._user(tally.user)
            by_process[None if owner is None else owner.process].append(tally)
        for process, tallies in by_process.items():
            for count in (*connect_counts(process, tallies), *other_counts(process, tallies)):
                self._begin(process, count.metric)
                self._emit(count)
        for record in program.abandoned(time.monotonic_ns()):
            owner = self._owner(record.flow)
            process = None if owner is None else owner.process
            self._emit(Count(FAILURES, process, 1.0, (("reason", ABANDONED),)))
            self._emit(event(record, owner, weight=0))

    def _begin(self, process: Process | None, metric: str) -> None:
        """The first connect of a process makes all series of the histogram begin with a 0."""
        if process is None or not metric.startswith(CONNECT_SECONDS):
            return
        if process not in self._connecting:
            self._connecting.add(process)
            self._emit(Watched(process, histogram_names()))

    def _look_for(self, flows: list[Flow]) -> None:
        """Ask sock_diag, at most once a flush, about connections whose owner is unknown."""
        wanted = {flow.connection for flow in flows if self._owner(flow) is None}
        wanted -= set(self._found)
        if wanted:
            self._keep(self._sockets.find(wanted))

    def _drop_gone(self) -> None:
        for owner in self._owners.remove_gone():
            self._emit(Gone(owner.process))
            self._connecting.discard(owner.process)
            self._forget(owner.process.pid)
        self._found = {
            at: (process, used)
            for at, (process, used) in self._found.items()
            if self._flushes - used < _FOUND_FLUSHES and self._owners.of(process) is not None
        }

    def _forget(self, pid: int) -> None:
        """Make room for others in what is kept by pid, the kernel's table first of all.

        Not when the pid is already another process's.
        """
        if self._owners.get(pid) is not None or Procfs().identify(pid) is not None:
            return
        self._newest.pop(pid, None)
        if self._program is not None:
            self._program.forget_process(pid)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._poller is not None:
            return self._poller.status()
        refused = self._sockets.refused
        if not refused or self._status.state != "attached":
            return self._status
        told = f"network namespaces that could not be entered: {refused}"
        detail = "; ".join(filter(None, (self._status.detail, told)))
        return replace(self._status, detail=detail)

    def stop(self) -> None:
        """Detach and let go of every namespace."""
        self._sockets.close()
        if self._poller is not None:
            self._poller.stop()
        if self._program is not None:
            self._program.close()
        if self._program is not None or self._poller is not None:
            self._program = self._poller = None
            self._status = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
