"""How the watch that all library probes share is doing: whom it sees, and whom it cannot.

Hooks nothing by itself: while no probe asks for a library there is no watch to speak of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from engine.readings import Level, ProbeStatus, Produced
from probes.bpf import capabilities
from probes.libraries import shared
from probes.libraries.executables import KINDS
from probes.libraries.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Reading

METRIC = "stallwatch_library_processes"
PROGRAMS = "stallwatch_library_programs"


class LibrariesProbe:
    """See the module. One thread uses it, the one of the other library probes."""

    name = "libraries"
    Config: ClassVar[type[Limits]] = Limits

    def __init__(self) -> None:
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")
        self._started = False

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Pass the settings on to the watch."""
        shared.configure(Limits.model_validate(options.settings))
        self._emit = emit
        self._started = True
        return self.status()

    def poll(self) -> None:
        """Nothing to drain: the probes that ask for libraries do it."""

    def produced(self) -> Produced:
        """Nothing is counted in the kernel; what the hook lost is made good by a scan."""
        return Produced(self.name)

    def collect(self) -> None:
        """Emit whom the watch sees."""
        watch = shared.current()
        if watch is None or not self._started:
            return
        for state, count in (("watched", watch.watched), ("unreadable", watch.unreadable)):
            self._emit(Level(METRIC, None, float(count), (("state", state),)))
        for kind in KINDS:
            count = watch.executables.count(kind)
            self._emit(Level(PROGRAMS, None, float(count), (("kind", kind),)))

    def status(self) -> ProbeStatus:
        """The present state."""
        watch = shared.current()
        if not self._started:
            return self._off
        if watch is None:
            return ProbeStatus(self.name, "attached", "", "no probe asks for a library")
        if watch.hook_error is not None:
            return watch.hook_error.status(self.name, "degraded")
        if watch.deaf:
            detail = f"new processes of new containers are found late: {watch.deaf}"
            return ProbeStatus(self.name, "degraded", "no_tracepoint", detail)
        detail = f"processes with watched libraries: {watch.watched}"
        programs = str(watch.executables)
        if programs:
            detail += f"; programs without a dynamic linker: {programs}"
        if watch.unreadable:
            pids = ", ".join(map(str, watch.unreadable_pids[:3]))
            detail += f"; processes that cannot be read: {watch.unreadable} (pid {pids})"
            # With it, what is left is a security module's say, or another user namespace's.
            if "sys_ptrace" not in capabilities.read_privileges().effective:
                mend = capabilities.MEND_OTHERS
                return ProbeStatus(self.name, "degraded", "unreadable_processes", detail, mend)
        return ProbeStatus(self.name, "attached", "", detail)

    def stop(self) -> None:
        """Nothing to detach."""
        if self._started:
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._started = False


def _nowhere(_: Reading) -> None:
    pass
