"""A loaded program that includes calls.h, the libraries that it probes, and who uses them.

    self._followed = Followed("gloo", SOURCE, FUNCTIONS, SLOTS, defines, budget)
    joined, gone, slow = ...poll()      # in poll
    look = ...collect()                 # in collect

What probes of plain calls have in common; what their counts mean they say themselves.
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from engine.readings import Level, Pairs, Process, Produced
    from probes.budget.settings import BudgetConfig
    from probes.functions.function import Function
    from probes.functions.totals import Look, SlowCall
    from probes.libraries.maps import FileKey


class Followed:
    """Each slot has the name of the function whose budget its calls are counted in.

    Raises UnavailableError when it cannot be loaded. One thread uses it.
    """

    def __init__(
        self,
        name: str,
        source: Path,
        functions: Sequence[Function],
        slots: Sequence[str],
        defines: Mapping[str, int | str],
        budget: BudgetConfig,
        *,
        max_files: int = 256,
    ) -> None:
        self._name = name
        programs = {p for f in functions for p in (f.enter, f.leave, f.mark) if p}
        self._programs = sorted(programs)
        kinds = dict.fromkeys(self._programs, ProgramType.UPROBE)
        self.bpf: BpfObject = load(source, {**kinds, **EXIT_PROGRAM}, defines)
        try:
            # Without a job there is nothing to attach to yet; that it will be refused shows now.
            try_uprobe(self.bpf, self._programs[0])
            self.totals = CallTotals(self.bpf, slots)
        except UnavailableError:
            self.bpf.close()
            raise
        self._sites = FunctionSites(self.bpf, functions, max_files=max_files)
        self._calls = Governed(name, self.totals, self._sites, functions, budget)
        self.watch = subscribe(*dict.fromkeys(each.library for each in functions))

    def poll(self, on_join: Callable[[Process], None]) -> list[Process]:
        """Follow libraries; hands over who uses them now, returns who does not any more.

        Call `leave` with those when the last of them has been told.
        """
        self._sites.advance()
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

    def budget_levels(self, metric: str, labels: Callable[[str], Pairs]) -> Iterable[Level]:
        """After `collect`: error bounds and the budget's own metrics."""
        return self._calls.readings(metric, labels)

    def timed(self, files: Iterable[FileKey], names: Iterable[str]) -> bool:
        """Whether one of these functions is probed at entry and exits in one of the files."""
        wanted = tuple(names)
        return any(self._sites.timed(key, name) for key in files for name in wanted)

    @property
    def pending(self) -> int:
        """Functions in files that are still to be attached."""
        return self._sites.pending

    def produced(self) -> Produced:
        """The kernel's counters."""
        return self.totals.produced(self._name, self._programs)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self.watch.hook_error is not None:
            return self.watch.hook_error.status(self._name, "degraded")
        if self._sites.problem:
            return self._sites.status(self._name)
        deaf = self.totals.deaf or self.watch.deaf
        if deaf:
            detail = f"ends and starts of some processes are noticed late: {deaf}"
            return ProbeStatus(self._name, "degraded", "no_tracepoint", detail)
        detail = f"processes: {len(self.watch.processes)}, files: {self._sites.count}"
        if self.watch.unreadable:
            detail += f", processes that cannot be read: {self.watch.unreadable}"
        return ProbeStatus(self._name, "attached", "", detail)

    def close(self) -> None:
        """Detach."""
        self.watch.close()
        self._sites.close()
        self.bpf.close()

    def _apply(self, changes: Changes, on_join: Callable[[Process], None]) -> list[Process]:
        for mapped in changes.appeared:
            self._sites.attach(mapped)
        for process in changes.joined:
            self._calls.join(process)
            on_join(process)
        for key in changes.vanished:
            self._sites.detach(key)
        return changes.gone
