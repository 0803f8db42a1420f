"""Keeps the probes of one kind within their budget, process by process.

    governor = Governor("cuda", sites, FUNCTIONS, settings.budget)
    governor.poll(read)          # in the probe's poll: begins and ends slices
    governor.step(read())        # in its collect: compares cost with budget, changes modes
    governor.estimate(key, raw)  # what to emit for a raw total, with the error bound of its traps

`read()` gives cumulative totals, {(slot, process): (traps, ...)}: traps first, then whatever else
is to be scaled alike. A slot is a function, or one kind of its calls (`Ledger.function_of`).
A function is in one mode for all processes, because a breakpoint sits in a file and not in a
process; the process that pays the largest share decides.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.readings import Level
from probes.budget.control import Control, Mode, Slice
from probes.budget.estimator import Window
from probes.budget.ledger import Ledger
from probes.budget.lows import Lows
from probes.budget.shares import LEAST_CORES, cpu_seconds, share_out, taken_from
from probes.budget.traps import TrapCosts, current_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.readings import Process
    from probes.budget.bounds import Floats
    from probes.budget.estimator import Estimate
    from probes.budget.ledger import Key, Totals, Vector
    from probes.budget.schedule import Schedule
    from probes.budget.settings import BudgetConfig

# A function this many times over its budget is not watched for another interval first.
SEVERE = 10.0
# Breakpoints in many files are put back over several polls; a slice does not wait longer for them.
PATIENCE_SECONDS = 5.0
_LEAST_STEP_SECONDS = 0.5
# The weight of a new slice in the mean of what a function would take.
RENEWAL = 0.4
# A burst between two slices must not make a slice seem endless.
MOST_SLICES = 4.0


class Sites(Protocol):
    """What the governor does to breakpoints; `FunctionSites` does it."""

    def suspend(self, name: str) -> None:
        """Detach a function in all files; does not wait for the kernel."""
        ...

    def resume(self, name: str) -> None:
        """Attach it again."""
        ...

    def attached(self, name: str) -> int:
        """Files in which it is attached."""
        ...

    def trap_codes(self, name: str) -> Sequence[bytes]:
        """The first bytes of each instruction at which it is or was attached."""
        ...


class Probed(Protocol):
    """What the governor must know of a function; `Function` says it."""

    @property
    def name(self) -> str:
        """Label value and key."""
        ...

    @property
    def colder(self) -> tuple[str, ...]:
        """Functions that may stand in for it."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """A function's mode changed. `ratio`: what it would take of the worst process if watched."""

    function: str
    mode: Mode
    ratio: float


class Governor:
    """See the module. One thread uses it; times are seconds of CLOCK_MONOTONIC."""

    def __init__(
        self,
        probe: str,
        sites: Sites,
        functions: Sequence[Probed],
        settings: BudgetConfig,
        *,
        costs: Callable[[], TrapCosts] = current_costs,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
        used: Callable[[Process], float | None] = cpu_seconds,
        ledger: Ledger | None = None,
    ) -> None:
        self._probe = probe
        self._sites = sites
        self._functions = {each.name: each for each in functions}
        self._settings = settings
        self._costs = costs
        self._clock = clock
        self._chance = chance or random.SystemRandom()
        self._used = used
        self._controls = {each.name: Control(each.name, settings) for each in functions}
        self._ledger = ledger or Ledger()
        # At the last step: when, totals by key, CPU seconds and cores that count by process.
        self._stepped: float | None = None
        self._totals: Totals = {}
        self._cpu: dict[Process, float | None] = {}
        self._cores: dict[Process, float] = {}
        self._lows = Lows()
        # The last look between two steps, for functions that may soon be in slices.
        self._looked: tuple[float, Totals] | None = None
        self._decisions: list[Decision] = []
        # By key, the error bound of what was estimated last, as a share of it.
        self._errors: dict[Key, float] = {}

    def poll(self, read: Callable[[], Totals]) -> None:
        """Begin and end the slices that are due; reads totals only then."""
        suspects = [each.name for each in self._controls.values() if each.suspect]
        if suspects:
            self._look(suspects, read)
        else:
            self._looked = None
        for control in self._controls.values():
            if control.schedule is not None:
                self._run_slices(control, control.schedule, read)

    def step(self, totals: Totals, now: float | None = None) -> list[Decision]:
        """Compare what was taken with the budget, once an interval; the changes of mode."""
        now = self._clock() if now is None else now
        since, before = self._stepped, self._totals
        if since is not None and now - since < _LEAST_STEP_SECONDS:
            return []
        self._stepped, self._totals = now, totals
        self._weigh({process for _, process in totals}, since, now)
        if since is None or not self._settings.enabled:
            return []
        self._measure(totals, before, now - since)
        self._allow()
        for control in self._controls.values():
            mode = self._choose(control, now)
            if mode == "duty" and control.mode == "full":
                self._ledger.note(control.name, before, totals, now - since)
                self._ledger.note_idle(self._lows.swinging(self._ledger.keys(control.name)))
            self._change(control, mode, now, totals)
        decisions, self._decisions = self._decisions, []
        return decisions

    def estimate(self, key: Key, raw: Vector, counter: int = 0) -> Estimate:
        """What a raw total stands for; the same, with no error, while nothing is missed.

        `counter`: which of its numbers the bound is of.
        """
        found = self._ledger.estimate(key, raw, self._clock(), counter)
        self._errors[key] = found.bound / max(float(found.values[counter]), 1.0)
        return found

    def is_estimated(self, key: Key) -> bool:
        """Whether a total has an error bound: it is, or was, or will soon be watched in slices."""
        return key in self._ledger

    def unseen(self, processes: Iterable[Process]) -> Iterator[tuple[Key, Floats]]:
        """(slot, process) that no slice has met yet, and how far their 0 may be off."""
        return self._ledger.unseen(processes, self._clock())

    def forget(self, process: Process) -> None:
        """The process has ended, and `estimate` was asked for the last time."""
        self._ledger.forget(process)
        for control in self._controls.values():
            control.wanted.pop(process, None)
        self._errors = {key: error for key, error in self._errors.items() if key[1] != process}

    def modes(self) -> dict[str, Mode]:
        """The mode of each function."""
        return {name: control.mode for name, control in self._controls.items()}

    def levels(self) -> Iterator[Level]:
        """Modes, measured shares, errors and trap costs, as the agent's own metrics."""
        probe = ("probe", self._probe)
        errors = dict.fromkeys(self._controls, 0.0)
        for (slot, _), error in self._errors.items():
            name = self._ledger.function_of(slot)
            errors[name] = max(errors[name], error)
        for name, control in self._controls.items():
            own = (probe, ("function", name))
            yield Level("stallwatch_probe_mode", None, 1.0, (*own, ("mode", control.mode)))
            yield Level("stallwatch_probe_overhead_ratio", None, control.ratio, own)
            yield Level("stallwatch_probe_error_ratio", None, errors[name], own)
        for kind, seconds in self._costs().by_kind():
            yield Level("stallwatch_probe_trap_seconds", None, seconds, (("kind", kind),))

    def _price(self) -> None:
        """What a trap of each function costs; looked up again where its files are others."""
        costs = self._costs()
        for name, control in self._controls.items():
            if control.priced != (costs, files := self._sites.attached(name)):
                if files or not control.priced:
                    control.trap_seconds = costs.mean(self._sites.trap_codes(name))
                control.priced = costs, files

    def _weigh(self, processes: set[Process], since: float | None, now: float) -> None:
        """By process, the cores that a share is a share of."""
        before, self._cpu = self._cpu, {each: self._used(each) for each in processes}
        if since is None:
            return
        for process, used in self._cpu.items():
            earlier = before.get(process)
            spent = None if used is None or earlier is None else used - earlier
            self._cores[process] = taken_from(spent, now - since) / (now - since)
        self._cores = {each: self._cores[each] for each in self._cpu}

    def _share(self, name: str, process: Process, traps_per_second: float) -> float:
        cores = self._cores.get(process, LEAST_CORES)
        return traps_per_second * self._controls[name].trap_seconds / cores

    def _measure(self, totals: Totals, before: Totals, passed: float) -> None:
        self._price()
        self._lows.turn(self._clock())
        for control in self._controls.values():
            control.ratio = 0.0
            if control.mode == "full":
                control.wanted = {}
        traps: dict[Key, float] = {}
        for key, raw in totals.items():
            earlier = float(before[key][0]) if key in before else 0.0
            rate = max(0.0, float(raw[0]) - earlier) / passed
            self._lows.note(key, rate if key in before else 0.0, rate)
            function = self._ledger.function_of(key[0]), key[1]
            traps[function] = traps.get(function, 0.0) + rate
        for (name, process), rate in traps.items():
            control = self._controls[name]
            taken = self._share(name, process, rate)
            control.ratio = max(control.ratio, taken)
            if control.mode == "full":
                control.wanted[process] = taken

    def _allow(self) -> None:
        """Share the budget of each process out among the functions that are counted in it."""
        counted = [each for each in self._controls.values() if each.mode in {"full", "duty"}]
        fractions = {control.name: 1.0 for control in counted}
        for process in {process for control in counted for process in control.wanted}:
            wanted = {each.name: each.wanted[process] for each in counted if process in each.wanted}
            for name, allowed in share_out(self._settings.ratio, wanted).items():
                if wanted[name] > allowed:
                    fractions[name] = min(fractions[name], allowed / wanted[name])
        for control in counted:
            fraction = fractions[control.name]
            control.allowance = self._settings.ratio if fraction == 1 else fraction * control.worst

    def _choose(self, control: Control, now: float) -> Mode:
        if control.mode == "full":
            return self._choose_from_full(control)
        if control.mode == "duty":
            control.returning = control.is_calm(now)
            control.strikes = 0 if control.affordable else control.strikes + 1
            return self._next_rung(control) if control.strikes >= 2 else "duty"
        return "duty" if now >= control.retry_at else control.mode

    def _choose_from_full(self, control: Control) -> Mode:
        suspected, over = control.suspect, control.fraction < 1
        # Near its budget: what a function does between two steps may be needed soon.
        control.suspect = over or control.worst > 0.5 * control.allowance
        if over and (suspected or control.worst > SEVERE * control.allowance):
            return self._next_rung(control)
        return "full"

    def _next_rung(self, control: Control) -> Mode:
        for rung in self._settings.ladder:
            if rung == "colder" and any(
                map(self._can_stand_in, self._functions[control.name].colder)
            ):
                return "colder"
            if rung == "duty" and control.affordable:
                return "duty"
        return "detached"

    def _can_stand_in(self, name: str) -> bool:
        other = self._controls.get(name)
        return other is not None and other.mode == "full" and self._sites.attached(name) > 0

    def _change(self, control: Control, mode: Mode, now: float, totals: Totals) -> None:
        if mode == control.mode:
            return
        if control.mode == "duty":
            self._ledger.end(control.name, now, totals)
        if mode == "duty":
            self._ledger.begin(control.name, now, totals)
            control.begin_slices(now, self._chance)
        elif mode == "full":
            control.enter_full()
        else:
            control.wait(now)
        if mode != "full":
            self._suspend(control)
        control.mode, control.suspect = mode, False
        self._decisions.append(Decision(control.name, mode, control.worst))

    def _suspend(self, control: Control) -> None:
        if not control.suspended:
            control.files = self._sites.attached(control.name)
            self._sites.suspend(control.name)
            control.suspended = True

    def _look(self, names: Sequence[str], read: Callable[[], Totals]) -> None:
        now = self._clock()
        if self._looked is not None and now - self._looked[0] < self._settings.slice.seconds:
            return
        totals = read()
        if self._looked is not None:
            for name in names:
                self._ledger.note(name, self._looked[1], totals, now - self._looked[0])
        self._looked = now, totals

    def _run_slices(self, control: Control, schedule: Schedule, read: Callable[[], Totals]) -> None:
        now = self._clock()
        for each in list(control.slices):
            if now >= each.opened + self._settings.slice.seconds:
                self._close(control, each, read)
                if control.mode == "full":
                    return
        if schedule.is_over(now):
            schedule.advance(control.stratum_seconds())
        if not schedule.taken and now >= schedule.due:
            self._open(control, schedule, read)
        elif not control.slices:
            self._suspend(control)

    def _open(self, control: Control, schedule: Schedule, read: Callable[[], Totals]) -> None:
        if control.suspended:
            self._sites.resume(control.name)
            control.suspended = False
        late = self._clock() - schedule.due
        if self._sites.attached(control.name) < control.files and late < PATIENCE_SECONDS:
            return  # still being attached; the slice begins when all of it is
        opened, slack, totals = self._read(read)
        start, length = schedule.take(opened)
        self._time_slices(control, totals)
        control.slices.append(Slice(start, length, opened, slack, totals))

    def _time_slices(self, control: Control, totals: Totals) -> None:
        """How long the last slice cost its processes, by the traps counted since it began."""
        before = control.opened
        control.opened = {key: raw[0] for key, raw in self._ledger.of(control.name, totals)}
        traps = sum(control.opened[key] - before[key] for key in before if key in control.opened)
        rate = sum(self._ledger.rate(key) for key in before)
        if before and rate > 0:
            bounded = min(traps / rate, MOST_SLICES * self._settings.slice.seconds)
            control.on_seconds += 0.5 * (bounded - control.on_seconds)

    def _close(self, control: Control, slice_: Slice, read: Callable[[], Totals]) -> None:
        closed, slack, totals = self._read(read)
        control.slices.remove(slice_)
        seconds = closed - slice_.opened
        window = Window(slice_.start, slice_.length, seconds, slice_.slack + slack)
        self._ledger.add(control.name, window, slice_.before, totals, control.trap_seconds)
        rates: dict[Process, float] = {}
        for key in self._ledger.keys(control.name):
            rates[key[1]] = rates.get(key[1], 0.0) + self._ledger.rate(key)
        for process, rate in rates.items():
            wanted = self._share(control.name, process, rate)
            # The budget is one of the mean, and a slice may have met a burst, or a pause.
            before = control.wanted.get(process, wanted)
            control.wanted[process] = before + RENEWAL * (wanted - before)
        if control.returning and not control.slices:
            # Everything is attached and was just read: no call is missed on the way back.
            self._change(control, "full", closed, totals)

    def _read(self, read: Callable[[], Totals]) -> tuple[float, float, Totals]:
        """Totals, the middle of the time in which they were read, and half of that time."""
        before = self._clock()
        totals = read()
        after = self._clock()
        return (before + after) / 2, (after - before) / 2, totals
