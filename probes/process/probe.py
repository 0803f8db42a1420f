"""`process_exec_total`, `process_killed_total`, `process_oom_kills_total`: starts and violent ends.

Source: tracepoints of sched, signal and oom; see program.bpf.c. Where tracefs is closed to us, the
raw tracepoint sched_process_exec, which needs none, and then program starts only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from engine.aggregate.procfs import CLOCK_TICKS_PER_SECOND, Procfs
from engine.readings import Count, Event, ProbeStatus, Process, Produced
from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.clock.wall import unix_ms
from probes.process.cgroups import CgroupNames
from probes.process.kernel import ProcessProgram
from probes.process.known import KnownProcesses
from probes.process.limits import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Reading
    from probes.process.ending import Ending

EXECS, KILLED, OOM_KILLS = "process_exec_total", "process_killed_total", "process_oom_kills_total"
EVENT_KINDS = {"killed": "process_killed", "oom": "oom_kill"}


class ProcessProbe:
    """See the module. One thread uses it."""

    name = "process"
    Config: ClassVar[type[ProcessSettings]] = ProcessSettings

    def __init__(self, procfs: Procfs | None = None) -> None:
        self._procfs = procfs or Procfs()
        self._program: ProcessProgram | None = None
        self._known: KnownProcesses | None = None
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")
        self._groups = CgroupNames()
        self._swept = 0
        self._trust_pids = True

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load and attach."""
        self._emit = emit
        try:
            self._program = ProcessProgram(ProcessSettings.model_validate(options.settings))
            self._known = KnownProcesses()
        except UnavailableError as error:
            self._off = error.status(self.name)
        self._trust_pids = capabilities.sees_kernel_pids()
        return self.status()

    def poll(self) -> None:
        """Hand on who ended."""
        if self._known is not None:
            self._known.poll()
        if self._program is not None:
            for ending in self._program.drain():
                self._report(ending)

    def produced(self) -> Produced:
        """The kernel's counters."""
        if self._program is None:
            return Produced(self.name)
        produced = dict(self._program.produced())
        # Swept ends are found by the reader, so the kernel has not counted them.
        produced["ends"] += self._swept
        return Produced(
            self.name, tuple(produced.items()), self._program.lost(), self._program.map_use()
        )

    def collect(self) -> None:
        """Emit what was counted since the last call."""
        if self._program is None:
            return
        execs = self._program.take_execs()
        containers = self._groups.containers(set(execs))
        by_container: dict[str, int] = {"": 0}
        for group, count in execs.items():
            name = containers[group]
            by_container[name] = by_container.get(name, 0) + count
        for name, count in by_container.items():
            labels = (("container", name),) if name else ()
            self._emit(Count(EXECS, None, float(count), labels, weight=count))
        self.poll()
        for ending in self._program.sweep(self._is_gone):
            self._swept += 1
            self._report(ending)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._program is None:
            return self._off
        if self._program.lacking is not None:
            lacking = self._program.lacking
            detail = f"program starts only, no ends by signal: {lacking.detail}"
            return ProbeStatus(self.name, "degraded", lacking.reason, detail, lacking.mend)
        if not self._trust_pids:
            return ProbeStatus(
                self.name,
                "degraded",
                "pid_namespace",
                "counted for the node only: the kernel's pids mean other processes here",
                "docker: --pid=host; Kubernetes: hostPID: true",
            )
        return ProbeStatus(self.name, "attached")

    def stop(self) -> None:
        """Detach."""
        if self._known is not None:
            self._known.close()
            self._known = None
        if self._program is not None:
            self._program.close()
            self._program = None
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")

    def _report(self, ending: Ending) -> None:
        process = self._identify(ending)
        if ending.kind == "oom":
            self._emit(Count(OOM_KILLS, process, 1.0, weight=1, stream="ends"))
        else:
            labels = (("signal", ending.signal),)
            self._emit(Count(KILLED, process, 1.0, labels, weight=1, stream="ends"))
        if process is None and ending.kind == "killed":
            return  # nobody's process: counted, and no event for each that a shell ends
        at_ms = unix_ms(ending.monotonic_ns)
        self._emit(Event(EVENT_KINDS[ending.kind], at_ms, process, _fields(ending)))

    def _is_gone(self, pid: int) -> bool:
        return self._trust_pids and self._procfs.stat(pid) is None

    def _identify(self, ending: Ending) -> Process | None:
        """Whose end it is: who has, or had, the pid and began before the signal."""
        if not self._trust_pids:
            return None
        present = self._procfs.identify(ending.pid)
        known = [] if self._known is None else self._known.candidates(ending.pid)
        # Start times count from boot, suspended time included; the program's clock leaves it out.
        suspended_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        until = (ending.monotonic_ns + suspended_ns) * CLOCK_TICKS_PER_SECOND // 1_000_000_000
        candidates = ([] if present is None else [present]) + known
        return next((each for each in candidates if each.start_ticks <= until), None)


def _fields(ending: Ending) -> tuple[tuple[str, str | int], ...]:
    fields: list[tuple[str, str | int]] = [("pid", ending.pid), ("signal", ending.signal)]
    if ending.comm:
        fields.append(("comm", ending.comm))
    if ending.sender:
        fields += [("sender_pid", ending.sender), ("sender_comm", ending.sender_comm)]
    return tuple(fields)


def _nowhere(_: Reading) -> None:
    pass
