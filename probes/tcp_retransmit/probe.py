"""`tcp_retransmit`: retransmits, segments and loss probes, owned by process.

Metrics: tcp_retrans_total, tcp_retrans_segments_total, tcp_segments_out_total,
tcp_loss_probes_total. Events: tcp_retransmit with comm, src, sport, dst, dport.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Count, Event, Gone, ProbeStatus, Produced, Watched
from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.tcp_retransmit import namespaces
from probes.tcp_retransmit.kernel import RetransmitProgram
from probes.tcp_retransmit.limits import Limits, LimitSettings
from probes.tcp_retransmit.namespaces import shared_namespaces
from probes.tcp_retransmit.owners import Owners
from probes.tcp_retransmit.segments import OUT, RETRANSMITTED
from probes.tcp_retransmit.sockets import LOSS_PROBES, Sockets

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Process, Reading
    from probes.tcp_retransmit.flow import Connection, Flow
    from probes.tcp_retransmit.owners import Owner

METRIC = "tcp_retrans_total"
EVENT = "tcp_retransmit"
COUNTERS = tuple((name, ()) for name in (METRIC, RETRANSMITTED, OUT))
_PENDING_LIMIT = 2_000  # events that wait for the next look at sock_diag
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of include/linux/proc_ns.h


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
        self._found: dict[Connection, int] = {}
        self._pending: list[tuple[int, Flow]] = []
        self._trust_pids = True

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Attach, then look once at what exists. Settings: see limits.Limits."""
        self._emit = emit
        try:
            capabilities.require_bpf(capabilities.read_privileges())
            self._program = RetransmitProgram(Limits.from_settings(options.settings))
        except UnavailableError as error:
            self._status = error.status(self.name)
            return self._status
        self._trust_pids = Path("/proc/self/ns/pid").stat().st_ino == _INITIAL_PID_NAMESPACE
        self._found = self._sockets.scan_all()
        for pid in set(self._found.values()):
            self._meet(pid)
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
            owner = self._owner(record[1])
            if owner is None and len(self._pending) < _PENDING_LIMIT:
                self._pending.append(record)
            else:
                self._emit_event(record, owner)
        self._sockets.poll()

    def _meet(self, pid: int) -> None:
        new, replaced = self._owners.meet(pid)
        if replaced is not None:
            self._emit(Gone(replaced.process))
        if new is not None:
            # In a namespace of the node's, loss probes are nobody's own: a task's 0 would claim
            # that it has none.
            own = () if new.namespace in shared_namespaces() else ((LOSS_PROBES, ()),)
            self._emit(Watched(new.process, COUNTERS + own))

    def _owner(self, flow: Flow) -> Owner | None:
        pid = flow.owner if self._trust_pids else 0
        pid = pid or self._found.get(flow.connection, 0)
        if pid and self._owners.get(pid) is None:
            self._meet(pid)
        return self._owners.get(pid) if pid else None

    def _emit_event(self, record: tuple[int, Flow], owner: Owner | None) -> None:
        monotonic_ns, flow = record
        at = time.time() - (time.monotonic_ns() - monotonic_ns) / 1e9
        connection = flow.connection
        fields = (
            ("comm", "" if owner is None else owner.comm),
            ("src", connection.source),
            ("sport", connection.source_port),
            ("dst", connection.destination),
            ("dport", connection.destination_port),
        )
        process = None if owner is None else owner.process
        self._emit(Event(EVENT, int(at * 1000), process, fields, weight=1))

    def produced(self) -> Produced:
        """The kernel's counters."""
        if self._program is None:
            return Produced(self.name)
        unheard = (("segments", "broadcast_lost"), self._sockets.overflows)
        return Produced(self.name, self._program.produced(), (*self._program.lost(), unheard))

    def collect(self) -> None:
        """Emit counts, segments and loss probes, then who has gone."""
        if self._program is None:
            return
        self.poll()
        hits = self._program.hits()
        self._look_for([flow for flow, _ in hits] + [flow for _, flow in self._pending])
        by_process: dict[Process | None, int] = defaultdict(int)
        for flow, count in hits:
            owner = self._owner(flow)
            by_process[None if owner is None else owner.process] += count
            if owner is not None:
                self._sockets.remember(owner.namespace, flow.connection, owner.process.pid)
        pending, self._pending = self._pending, []
        for record in pending:
            self._emit_event(record, self._owner(record[1]))
        for process, count in by_process.items():
            self._emit(Count(METRIC, process, float(count), weight=count))
        for reading in self._sockets.collect():
            self._emit(reading)
        self._drop_gone()

    def _look_for(self, flows: list[Flow]) -> None:
        """Ask sock_diag, at most once a flush, about connections whose owner is unknown."""
        wanted = {flow.connection for flow in flows if self._owner(flow) is None}
        wanted -= set(self._found)
        if not wanted:
            return
        self._found.update(self._sockets.find(wanted))
        for connection in wanted & set(self._found):
            self._meet(self._found[connection])

    def _drop_gone(self) -> None:
        for owner in self._owners.remove_gone():
            pid = owner.process.pid
            self._emit(Gone(owner.process))
            self._found = {at: own for at, own in self._found.items() if own != pid}
            self._forget(pid)

    def _forget(self, pid: int) -> None:
        """Make room for others in what is kept by pid, the kernel's table first of all."""
        self._newest.pop(pid, None)
        if self._program is not None:
            self._program.forget_process(pid)

    def status(self) -> ProbeStatus:
        """The present state."""
        refused = self._sockets.refused
        if not refused or self._status.state != "attached":
            return self._status
        told = f"network namespaces that could not be entered: {refused}"
        detail = "; ".join(filter(None, (self._status.detail, told)))
        return replace(self._status, detail=detail)

    def stop(self) -> None:
        """Detach and let go of every namespace."""
        self._sockets.close()
        if self._program is not None:
            self._program.close()
            self._program = None
            self._status = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
