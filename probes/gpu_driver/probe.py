"""`gpu_driver_ioctl*`: how long the GPU driver's system calls take, and which fail.

Source: kprobes on the driver's ioctl functions, or the tracepoints of ioctl for processes that map
the driver's library. See program.bpf.c for which, and README.md for what a figure means.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Count, Event, Gone, Level, ProbeStatus, Produced, Watched
from probes.bpf.errors import UnavailableError
from probes.clock.wall import unix_ms
from probes.gpu_driver.devices import Devices
from probes.gpu_driver.kernel import DriverProgram
from probes.gpu_driver.limits import GpuDriverSettings
from probes.gpu_driver.records import File, Total
from probes.libraries.maps import is_thread
from probes.libraries.shared import subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Process, Reading
    from probes.gpu_driver.records import SlowCall
    from probes.libraries.subscription import Changes, Subscription

CALLS, FAILURES = "gpu_driver_ioctls_total", "gpu_driver_ioctl_failures_total"
SECONDS, OPEN = "gpu_driver_ioctl_seconds_total", "gpu_driver_ioctl_open_seconds"
EVENT = "gpu_driver_slow_ioctl"


class GpuDriverProbe:
    """See the module. One thread uses it."""

    name = "gpu_driver"
    Config: ClassVar[type[GpuDriverSettings]] = GpuDriverSettings

    def __init__(self) -> None:
        self._program: DriverProgram | None = None
        self._libraries: Subscription | None = None
        self._devices = Devices((), ())
        self._processes: dict[int, Process] = {}
        self._before: dict[File, Total] = {}
        self._emit: Callable[[Reading], None] = _nowhere
        self._problem: UnavailableError | None = None
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load; kprobes attach now, tracepoints when somebody uses a GPU."""
        self._emit = emit
        settings = GpuDriverSettings.model_validate(options.settings)
        try:
            self._program = DriverProgram(settings)
        except UnavailableError as error:
            self._off = error.status(self.name)
            return self._off
        self._devices = Devices(settings.devices, self._program.functions)
        self._libraries = subscribe(*settings.libraries)
        self.poll()
        return self.status()

    def poll(self) -> None:
        """Follow processes that come and go, hand on slow calls."""
        if self._program is None or self._libraries is None:
            return
        self._apply(self._program, self._libraries.poll())
        for call in self._program.slow_calls():
            self._report(call)

    def _apply(self, program: DriverProgram, changes: Changes) -> None:
        for process in changes.gone:
            if self._processes.get(process.pid) == process:
                self._settle(program, {process.pid})
                del self._processes[process.pid]
                self._forget(program, process.pid)
            self._emit(Gone(process))
        for process in changes.joined:
            self._processes[process.pid] = process
            self._emit(Watched(process, library="libcuda.so"))
        try:
            program.follow(
                [process.pid for process in changes.joined],
                [each.pid for each in changes.gone if each.pid not in self._processes],
            )
            program.switch(on=bool(self._processes))
            self._problem = None if changes.joined else self._problem
        except UnavailableError as error:
            self._problem = error

    def produced(self) -> Produced:
        """The kernel's counters."""
        if self._program is None:
            return Produced(self.name)
        produced, lost = self._program.produced(), self._program.lost()
        return Produced(self.name, produced, lost, self._program.map_use())

    def collect(self) -> None:
        """Emit what was counted since the last call, and how long open calls have lasted."""
        if self._program is None:
            return
        self.poll()
        self._settle(self._program, None)
        oldest = dict.fromkeys(self._processes, 0.0)
        now = time.monotonic_ns()
        for call in self._program.open_calls():
            if not is_thread(call.pid, call.tid):
                self._program.abandon(call)
            elif call.pid in oldest:
                age = (now - call.since_ns) / 1e9
                oldest[call.pid] = max(oldest[call.pid], age)
        for pid, seconds in oldest.items():
            self._emit(Level(OPEN, self._processes[pid], seconds))

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._program is None:
            return self._off
        if self._problem is not None:
            return self._problem.status(self.name, "degraded")
        if self._program.functions:
            detail = f"kprobes: {', '.join(self._program.functions)}"
        else:
            tax = f"{self._program.tax_seconds * 1e9:.0f} ns"
            detail = (
                f"tracepoints, {tax} more for every system call of the node"
                if self._program.active
                else f"no process uses a GPU (tracepoints then: {tax} more for every system call)"
            )
        return ProbeStatus(self.name, "attached", "", detail)

    def stop(self) -> None:
        """Detach."""
        if self._libraries is not None:
            self._libraries.close()
            self._libraries = None
        if self._program is not None:
            self._program.close()
            self._program = None
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")

    def _settle(self, program: DriverProgram, pids: set[int] | None) -> None:
        """Emit the growth of the totals, of some processes or all."""
        for file, total in program.totals().items():
            if pids is not None and file.pid not in pids:
                continue
            grown = total.since(self._before.get(file, Total()))
            if not grown.calls:
                continue
            self._before[file] = total
            process = self._processes.get(file.pid) or self._identify(file.pid)
            labels = (("device", self._devices.name(file)),)
            self._emit(Count(CALLS, process, float(grown.calls), labels, weight=grown.calls))
            self._emit(Count(FAILURES, process, float(grown.failures), labels))
            self._emit(Count(SECONDS, process, grown.nanoseconds / 1e9, labels))

    def _identify(self, pid: int) -> Process | None:
        """With kprobes also processes call the driver that map none of the libraries."""
        return self._libraries.identify(pid) if self._libraries is not None else None

    def _forget(self, program: DriverProgram, pid: int) -> None:
        files = [file for file in self._before if file.pid == pid]
        program.forget(files)
        self._devices.forget(files)
        for file in files:
            del self._before[file]

    def _report(self, call: SlowCall) -> None:
        process = self._processes.get(call.file.pid) or self._identify(call.file.pid)
        fields = (
            ("lib", self._devices.name(call.file)),
            ("call", "ioctl"),
            ("op", f"{call.command:#x}"),
            ("seconds", call.nanoseconds / 1e9),
            ("result", call.result),
            ("tid", call.tid),
        )
        at_ms = unix_ms(call.monotonic_ns)
        self._emit(Event(EVENT, at_ms, process, fields, weight=1))


def _nowhere(_: Reading) -> None:
    pass
