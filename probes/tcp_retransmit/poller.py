"""Where BPF cannot run: what /proc and sock_diag tell without it.

Segments, bytes, round trips and the kernel's counters mean what they mean beside BPF and have the
same names. What only a tracepoint sees is missing: single retransmits, connect times, and whose a
failed connect or a reset was; the namespace's own counters (tcp_kernel_total) tell how many.
Needs no privileges; without them it sees the agent's own network namespace and its user's
processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.aggregate.identity import TaskDirectory
from engine.aggregate.procfs import Procfs
from engine.readings import Gone, ProbeStatus, Produced
from probes.tcp_retransmit import namespaces
from probes.tcp_retransmit.check import UNSEEN
from probes.tcp_retransmit.owners import Owners
from probes.tcp_retransmit.sockets import Sockets, met
from probes.tcp_retransmit.totals import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Reading
    from probes.bpf.errors import UnavailableError
    from probes.tcp_retransmit.sockets import Looking

MISSING = (
    "polled instead: no single retransmits, no connect times, no owners of failures and resets"
)
# Processes of a namespace that cannot be entered, asked for their task in one look.
_ASKED = 50


class TcpPoller:
    """Owners are whoever is found to hold a connection, and tasks in namespaces of their own."""

    def __init__(
        self, probe: str, looking: Looking, why: UnavailableError, emit: Callable[[Reading], None]
    ) -> None:
        self._probe = probe
        self._why = why
        self._emit = emit
        self._owners = Owners()
        self._sockets = Sockets(self._owners, looking, discover_looks=1)
        self._sockets.meet = self._meet
        self._directory = TaskDirectory()

    def start(self) -> ProbeStatus:
        """Look once at what exists."""
        for process in set(self._sockets.scan_all().values()):
            self._meet(process.pid)
        return self.status()

    def _meet(self, pid: int) -> None:
        for reading in met(*self._owners.meet(pid), COUNTERS):
            self._emit(reading)

    def poll(self) -> None:
        """Hear of closed sockets."""
        self._sockets.poll()

    def produced(self) -> Produced:
        """Nothing is counted in the kernel for us; what its broadcasts lost is."""
        lost = (
            (("segments", "broadcast_lost"), self._sockets.overflows),
            (("segments", UNSEEN), self._sockets.check.difference[UNSEEN]),
        )
        return Produced(self._probe, (), lost)

    def collect(self) -> None:
        """Emit what grew, then who has gone."""
        self._meet_tasks()
        for reading in self._sockets.collect():
            self._emit(reading)
        for owner in self._owners.remove_gone():
            self._emit(Gone(owner.process))
            self._directory.forget(owner.process)

    def _meet_tasks(self) -> None:
        """A task whose namespace cannot be entered still has the namespace's counters."""
        if namespaces.may_enter():
            return
        known = {owner.namespace for owner in self._owners.all()}
        asked = 0
        for pid in Procfs().pids():
            namespace = namespaces.network_namespace(pid)
            if namespace is None or namespace in known or asked >= _ASKED:
                continue
            process = Procfs().identify(pid)
            asked += 1
            if process is not None and self._directory.lookup(process).task_id:
                known.add(namespace)
                self._meet(pid)

    def status(self) -> ProbeStatus:
        """Degraded: why BPF cannot run, and what is missing without it."""
        refused = self._sockets.refused
        parts = [self._why.detail, MISSING]
        if refused:
            parts.append(f"network namespaces that could not be entered: {refused}")
        return ProbeStatus(self._probe, "degraded", "poller", "; ".join(parts), self._why.mend)

    def stop(self) -> None:
        """Let go of every namespace."""
        self._sockets.close()
