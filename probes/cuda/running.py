"""The probe while it runs: programs loaded, libraries followed, maps read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from engine.readings import Gone, ProbeStatus, Produced, Watched
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import load
from probes.bpf.trial import try_uprobe
from probes.budget.governed import Governed
from probes.cuda.calls import DRIVER, RUNTIME
from probes.cuda.functions import (
    EXEC_PROGRAM,
    chosen,
    defines,
    function,
    function_name,
    programs,
    slot_names,
)
from probes.cuda.memory import STREAM, Memory
from probes.cuda.readings import CALLS, counts, labels, slow_event
from probes.functions.sites import FunctionSites
from probes.functions.totals import EXIT_PROGRAM, REASONS, STREAMS, CallTotals
from probes.libraries.shared import Changes, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Process, Reading
    from probes.cuda.settings import CudaSettings

SOURCE = Path(__file__).with_name("program.bpf.c")
# The counters that begin with a 0 as soon as a process maps CUDA.
FIRST = ("cudaStreamSynchronize", "cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel")
COUNTERS = tuple((CALLS, (("call", name),)) for name in FIRST)
MEMORY_REASONS = ("allocations_full", "map_full")


class Running:
    """Made by `start`, ended by `close`. One thread uses it. Raises UnavailableError."""

    def __init__(self, name: str, settings: CudaSettings, emit: Callable[[Reading], None]) -> None:
        self._name = name
        self._emit = emit
        calls = chosen(settings)
        self._programs = programs(calls)
        self._bpf = load(
            SOURCE, {**self._programs, **EXIT_PROGRAM}, {**defines(), **settings.defines()}
        )
        self._deaf = ""
        try:
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            for call in calls[:1]:
                try_uprobe(self._bpf, f"enter_{call.name}")
            self._totals = CallTotals(self._bpf, slot_names())
        except UnavailableError:
            self._bpf.close()
            raise
        try:
            self._bpf.attach_raw_tracepoint(EXEC_PROGRAM, "sched_process_exec")
        except UnavailableError as error:
            self._deaf = error.detail
        for slot in slot_names() if settings.slow_call.ms else ():
            self._totals.set_threshold(slot, settings.slow_call.seconds)
        functions = [function(call) for call in calls]
        self._sites = FunctionSites(self._bpf, functions, max_files=settings.files_limit)
        self._calls = Governed(
            name, self._totals, self._sites, functions, settings.budget, function_of=function_name
        )
        self._accounted = {c.name for c in calls if c.kind in {"allocate", "free"}}
        owners = self._totals.owners
        self._memory = Memory(
            self._bpf.map("held"),
            self._bpf.map("allocations"),
            lambda incarnation: owners.of(*incarnation),
            lambda incarnation: owners.lives(*incarnation),
        )
        self._watch = subscribe(RUNTIME, DRIVER)

    def poll(self) -> None:
        """Attach to libraries that appeared, let go of those that nobody maps, tell slow calls."""
        self._apply(self._watch.poll())
        self._sites.advance()
        self._calls.poll()
        self._tell_slow()

    def produced(self) -> Produced:
        """Entries and exits, slow calls, and changes of memory that the kernel saw."""
        told = self._totals.produced(self._name, self._programs)
        produced, lost = self._bpf.produced()[len(STREAMS) :], self._bpf.lost()[len(REASONS) :]
        memory = tuple(((STREAM, why), n) for why, n in zip(MEMORY_REASONS, lost, strict=True))
        return Produced(self._name, (*told.produced, (STREAM, produced[0])), (*told.lost, *memory))

    def collect(self) -> None:
        """Emit what every process did since the last call, and what it holds."""
        callers = self._settle()
        changes = Changes()
        for pid in callers - {process.pid for process in self._watch.processes}:
            self._watch.look(pid, changes)  # forked from a watched one, so no linker told of it
        self._apply(changes)
        for level in self._calls.readings("cuda_calls", labels):
            self._emit(level)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._watch.hook_error is not None:
            return self._watch.hook_error.status(self._name, "degraded")
        if self._sites.problem:
            return self._sites.status(self._name)
        deaf = self._deaf or self._totals.deaf or self._watch.deaf
        if deaf:
            detail = f"ends and starts of some processes are noticed late: {deaf}"
            return ProbeStatus(self._name, "degraded", "no_tracepoint", detail)
        detail = f"processes: {len(self._watch.processes)}, files: {self._sites.count}"
        if self._watch.unreadable:
            detail += f", processes that cannot be read: {self._watch.unreadable}"
        return ProbeStatus(self._name, "attached", "", detail)

    def close(self) -> None:
        """Detach."""
        self._watch.close()
        self._sites.close()
        self._bpf.close()

    def _apply(self, changes: Changes) -> None:
        for mapped in changes.appeared:
            self._sites.attach(mapped)
        for process in changes.joined:
            self._calls.join(process)
            self._emit(Watched(process, COUNTERS, RUNTIME, self._watch.parent(process.pid)))
        if changes.gone:
            self._tell_slow()  # while it is known whose they are
            for process in changes.gone:
                self._calls.leave(process)
            self._settle()
            for process in changes.gone:
                self._emit(Gone(process))
        for key in changes.vanished:
            self._sites.detach(key)

    def _tell_slow(self) -> None:
        for slow in self._totals.slow():
            self._emit(slow_event(slow, _comm(slow.process)))

    def _settle(self) -> set[int]:
        """Emit what was called; the pids of those who called."""
        self._memory.meet()
        look = self._calls.look()
        for each in look.calls:
            for reading in counts(each.name, each.process, each.total):
                self._emit(reading)
        self._settle_memory()
        return {each.process.pid for each in look.calls if each.process is not None}

    def _settle_memory(self) -> None:
        """Emit what processes hold; after a look."""
        modes = self._calls.governor.modes()
        whole = all(modes[name] == "full" for name in self._accounted)
        for reading in self._memory.readings(whole=whole):
            self._emit(reading)


def _comm(process: Process | None) -> str:
    stat = Procfs().stat(process.pid) if process is not None else None
    return stat.comm if stat is not None else ""
