"""Begins and ends the slices in which functions are watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.budget.contention import stretch
from probes.budget.control import Slice
from probes.budget.estimator import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Process
    from probes.budget.contention import Turns
    from probes.budget.control import Control
    from probes.budget.ledger import Ledger, Totals
    from probes.budget.probed import Sites
    from probes.budget.schedule import Schedule
    from probes.budget.settings import BudgetConfig
    from probes.budget.weights import Weights

# Breakpoints in many files are put back over several polls; a slice does not wait longer for them.
PATIENCE_SECONDS = 5.0
# The weight of a new slice in the mean of what a function would take.
RENEWAL = 0.4
# A burst between two slices must not make a slice seem endless.
MOST_SLICES = 4.0


class Slicing:
    """Attaches, reads, detaches; what it finds goes into the ledger and the function's control."""

    def __init__(
        self,
        sites: Sites,
        ledger: Ledger,
        weights: Weights,
        settings: BudgetConfig,
        clock: Callable[[], float],
        turns: Callable[[Process], Turns],
    ) -> None:
        self._sites = sites
        self._ledger = ledger
        self._weights = weights
        self._settings = settings
        self.clock = clock
        self._turns = turns

    def run(
        self, control: Control, schedule: Schedule, read: Callable[[], Totals]
    ) -> tuple[float, Totals] | None:
        """What is due now. The moment and the totals from which on all can be counted, if asked.

        Everything is attached then and was just read: no call is missed on the way back.
        """
        now = self.clock()
        for each in list(control.slices):
            if now >= each.opened + self._settings.slice.seconds:
                closed, totals = self._close(control, each, read)
                if control.returning and not control.slices:
                    return closed, totals
        if schedule.is_over(now):
            schedule.advance(control.stratum_seconds())
        if not schedule.taken and now >= schedule.due:
            self._open(control, schedule, read)
        elif not control.slices:
            self.suspend(control)
        return None

    def suspend(self, control: Control) -> None:
        """Detach it."""
        if not control.suspended:
            control.files = self._sites.attached(control.name)
            self._sites.suspend(control.name)
            control.suspended = True

    def _open(self, control: Control, schedule: Schedule, read: Callable[[], Totals]) -> None:
        if control.suspended:
            self._sites.resume(control.name)
            control.suspended = False
        late = self.clock() - schedule.due
        if self._sites.attached(control.name) < control.files and late < PATIENCE_SECONDS:
            return  # still being attached; the slice begins when all of it is
        opened, slack, totals = self._read(read)
        start, length = schedule.take(opened)
        self._time_slices(control, totals)
        callers = {process for (_, process), _ in self._ledger.of(control.name, totals)}
        turns = {process: self._turns(process) for process in callers}
        control.slices.append(Slice(start, length, opened, slack, totals, turns))

    def _time_slices(self, control: Control, totals: Totals) -> None:
        """How long the last slice cost its processes, by the traps counted since it began."""
        before = control.opened
        control.opened = {key: raw[0] for key, raw in self._ledger.of(control.name, totals)}
        traps = sum(control.opened[key] - before[key] for key in before if key in control.opened)
        rate = sum(self._ledger.rate(key) for key in before)
        if before and rate > 0:
            bounded = min(traps / rate, MOST_SLICES * self._settings.slice.seconds)
            control.on_seconds += 0.5 * (bounded - control.on_seconds)

    def _close(
        self, control: Control, slice_: Slice, read: Callable[[], Totals]
    ) -> tuple[float, Totals]:
        closed, slack, totals = self._read(read)
        control.slices.remove(slice_)
        seconds = closed - slice_.opened
        window = Window(slice_.start, slice_.length, seconds, slice_.slack + slack)
        now = {process: self._turns(process) for process in slice_.turns}
        stretched = {each: stretch(turns, now[each]) for each, turns in slice_.turns.items()}
        self._ledger.add(
            control.name, window, slice_.before, totals, control.trap_seconds, stretched
        )
        if not control.looked:
            control.looked, control.wanted = True, {}  # what it wanted long ago
        rates: dict[Process, float] = {}
        for key in self._ledger.keys(control.name):
            rates[key[1]] = rates.get(key[1], 0.0) + self._ledger.rate(key)
        for process, rate in rates.items():
            wanted = self._weights.share(process, rate * control.trap_seconds)
            # The budget is one of the mean, and a slice may have met a burst, or a pause.
            before = control.wanted.get(process, wanted)
            control.wanted[process] = before + RENEWAL * (wanted - before)
        return closed, totals

    def _read(self, read: Callable[[], Totals]) -> tuple[float, float, Totals]:
        """Totals, the middle of the time in which they were read, and half of that time."""
        before = self.clock()
        totals = read()
        after = self.clock()
        return (before + after) / 2, (after - before) / 2, totals
