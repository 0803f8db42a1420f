"""A loaded program that includes calls.h, the libraries that it probes, and who uses them.

What probes of plain calls have in common; what their counts mean a `Report` says (reporting.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import ProbeStatus
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.trial import try_uprobe
from probes.budget.governed import Governed
from probes.functions.sites import FunctionSites
from probes.functions.totals import EXIT_PROGRAM, CallTotals
from probes.libraries.shared import Changes, subscribe
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from engine.readings import Pairs, Process, Produced, Reading
    from probes.budget.settings import BudgetConfig
    from probes.functions.function import Function
    from probes.functions.totals import Look, SlowCall
    from probes.libraries.maps import FileKey


@dataclass(frozen=True, slots=True)
class Description:
    """What is probed, and how it is counted.

    `source`: the program. `slots`: what each slot of calls.h is called, `function_of`: the function
    whose budget a slot's calls are counted in, by their names. `defines`: of the program.
    `thresholds`: seconds from which on a call of a slot is an event. `tracepoints`: raw ones by
    further programs of the source. `libraries`: files that are followed for their users alone.
    """

    source: Path
    functions: Sequence[Function]
    slots: Sequence[str]
    budget: BudgetConfig
    function_of: Callable[[str], str] = str
    defines: Mapping[str, int | str] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    tracepoints: Mapping[str, str] = field(default_factory=dict)
    libraries: Sequence[str] = ()
    files_limit: int = 256


class Followed:
    """Raises UnavailableError when it cannot be loaded. One thread uses it."""

    def __init__(self, name: str, description: Description) -> None:
        self._name = name
        functions = description.functions
        self._uprobes = sorted({p for f in functions for p in (f.enter, f.leave, f.mark) if p})
        self._programs = (*self._uprobes, *description.tracepoints)
        self.bpf = self._load(description)
        try:
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            for program in self._uprobes[:1]:
                try_uprobe(self.bpf, program)
            self.totals = CallTotals(self.bpf, description.slots)
            for slot, seconds in description.thresholds.items():
                self.totals.set_threshold(slot, seconds)
        except UnavailableError:
            self.bpf.close()
            raise
        self._deaf = self._attach(description.tracepoints)
        self.sites = FunctionSites(self.bpf, functions, max_files=description.files_limit)
        self._calls = Governed(
            *(name, self.totals, self.sites, functions, description.budget),
            function_of=description.function_of,
        )
        self._files: dict[FileKey, str] = {}
        libraries = (*(each.library for each in functions), *description.libraries)
        self.watch = subscribe(*dict.fromkeys(libraries))

    def _load(self, description: Description) -> BpfObject:
        kinds = dict.fromkeys(self._uprobes, ProgramType.UPROBE)
        kinds |= dict.fromkeys(description.tracepoints, ProgramType.RAW_TRACEPOINT)
        return load(description.source, {**kinds, **EXIT_PROGRAM}, description.defines)

    def _attach(self, tracepoints: Mapping[str, str]) -> str:
        """Why one of them cannot be, "" when all are."""
        try:
            for program, event in tracepoints.items():
                self.bpf.attach_raw_tracepoint(program, event)
        except UnavailableError as error:
            return error.detail
        return ""

    def poll(self, on_join: Callable[[Process], None]) -> list[Process]:
        """Follow libraries; hands over who uses them now, returns who does not any more.

        Call `leave` with those when the last of them has been told.
        """
        self.sites.advance()
        changes = self.watch.poll()
        self._calls.poll()
        return self._apply(changes, on_join)

    def collect(self, on_join: Callable[[Process], None]) -> tuple[Look, list[Process]]:
        """What was called since the last time, and who has gone."""
        changes = Changes()
        look = self._calls.look()
        known = {process.pid for process in self.watch.processes}
        callers = {each.process.pid for each in look.calls if each.process is not None}
        for pid in callers - known:
            self.watch.look(pid, changes)  # forked from a watched one, so no linker told of it
        return look, self._apply(changes, on_join)

    def last_words(self) -> Look:
        """What was called since the last look, now that somebody has gone."""
        return self._calls.look()

    def leave(self, processes: Iterable[Process]) -> None:
        """They are gone: the next look tells the last of them."""
        for process in processes:
            self._calls.leave(process)

    def slow(self) -> list[SlowCall]:
        """Calls that took at least their threshold."""
        return self.totals.slow()

    def budget_levels(self, metric: str, labels: Callable[[str], Pairs]) -> Iterable[Reading]:
        """After `collect`: error bounds and the budget's own metrics."""
        return self._calls.readings(metric, labels)

    def modes(self) -> Mapping[str, str]:
        """How each function is watched at present, by name: "full" is all the time."""
        return self._calls.governor.modes()

    @property
    def names(self) -> Collection[str]:
        """Of the files that anybody maps."""
        return self._files.values()

    def names_of(self, process: Process) -> list[str]:
        """Of those that a process maps, in order."""
        return sorted(self._files.get(key, "") for key in self.watch.files(process))

    def timed(self, files: Iterable[FileKey], names: Iterable[str]) -> bool:
        """Whether one of these functions is probed at entry and exits in one of the files."""
        wanted = tuple(names)
        return any(self.sites.timed(key, name) for key in files for name in wanted)

    @property
    def pending(self) -> int:
        """Functions in files that are still to be attached."""
        return self.sites.pending

    def produced(self) -> Produced:
        """The kernel's counters."""
        return self.totals.produced(self._name, self._programs)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self.watch.hook_error is not None:
            return self.watch.hook_error.status(self._name, "degraded")
        if self.sites.problem:
            return self.sites.status(self._name)
        deaf = self._deaf or self.totals.deaf or self.watch.deaf
        if deaf:
            detail = f"ends and starts of some processes are noticed late: {deaf}"
            return ProbeStatus(self._name, "degraded", "no_tracepoint", detail)
        detail = f"processes: {len(self.watch.processes)}, files: {self.sites.count}"
        if self.watch.unreadable:
            detail += f", processes that cannot be read: {self.watch.unreadable}"
        return ProbeStatus(self._name, "attached", "", detail)

    def close(self) -> None:
        """Detach."""
        self.watch.close()
        self._calls.close()
        self.sites.close()
        self.bpf.close()

    def _apply(self, changes: Changes, on_join: Callable[[Process], None]) -> list[Process]:
        for mapped in changes.appeared:
            self._files[mapped.key] = mapped.name
            self.sites.attach(mapped)
        for process in changes.joined:
            self._calls.join(process)
            on_join(process)
        for key in changes.vanished:
            self._files.pop(key, None)
            self.sites.detach(key)
        return changes.gone
