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
from typing import TYPE_CHECKING

from engine.readings import Level
from probes.budget.contention import turns
from probes.budget.control import Control, Mode
from probes.budget.ledger import Ledger
from probes.budget.lows import Lows
from probes.budget.pool import AGENT, Pool
from probes.budget.probed import Decision, Probed, Sites
from probes.budget.sampled import Sampled
from probes.budget.shares import LEAST_CORES, cpu_seconds
from probes.budget.slicing import Slicing
from probes.budget.traps import TrapCosts, current_costs
from probes.budget.weights import Weights
from probes.sampling.sampler import AGENT as AGENT_SAMPLER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.readings import Process, Reading
    from probes.budget.bounds import Floats
    from probes.budget.contention import Turns
    from probes.budget.estimator import Estimate
    from probes.budget.ledger import Key, Totals, Vector
    from probes.budget.settings import BudgetConfig
    from probes.sampling.sampler import Sampler

# A function this many times over its budget is not watched for another interval first.
SEVERE = 10.0
_LEAST_STEP_SECONDS = 0.5


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
        pool: Pool = AGENT,
        least_cores: float = LEAST_CORES,
        sampler: Sampler = AGENT_SAMPLER,
        turns: Callable[[Process], Turns] = turns,
    ) -> None:
        self._probe = probe
        self._sites = sites
        self._functions = {each.name: each for each in functions}
        self._settings = settings
        self._costs = costs
        self._clock = clock
        self._chance = chance or random.SystemRandom()
        self._weights = Weights(used, least_cores)
        self._pool = pool
        self._sampled = Sampled(probe, sites.spans, used, sampler)
        self._controls = {each.name: Control(each.name, settings) for each in functions}
        self._ledger = ledger or Ledger()
        self._slicing = Slicing(sites, self._ledger, self._weights, settings, clock, turns)
        # At the last step: when, totals by key.
        self._stepped: float | None = None
        self._totals: Totals = {}
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
                whole = self._slicing.run(control, control.schedule, read)
                if whole is not None:
                    self._change(control, "full", *whole)

    def step(
        self, totals: Totals, now: float | None = None, processes: Iterable[Process] = ()
    ) -> list[Decision]:
        """Compare what was taken with the budget, once an interval; the changes of mode.

        `processes`: that may have no totals, as what they call may not be counted at all.
        """
        now = self._clock() if now is None else now
        since, before = self._stepped, self._totals
        if since is not None and now - since < _LEAST_STEP_SECONDS:
            return []
        self._stepped, self._totals = now, totals
        passed = None if since is None else now - since
        known = {process for _, process in totals}.union(processes)
        self._weights.weigh(known, passed)
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
        self._tell()  # those who step next need not make way for what was let go just now
        clock = self._sampled.step(known)
        share = self._weights.share
        self._pool.tell(self._sampled, {each: {"": share(each, clock[each])} for each in clock})
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
        self._pool.forget(self, process)
        self._pool.forget(self._sampled, process)
        self._sampled.forget(process)
        for control in self._controls.values():
            control.wanted.pop(process, None)
        self._errors = {key: error for key, error in self._errors.items() if key[1] != process}

    def close(self) -> None:
        """Nothing is watched any more: what it took is left to others."""
        self._pool.leave(self)
        self._pool.leave(self._sampled)
        self._sampled.close()

    def modes(self) -> dict[str, Mode]:
        """The mode of each function."""
        return {name: control.mode for name, control in self._controls.items()}

    def is_watching(self, name: str) -> bool:
        """Whether every call of it is seen at this moment: all the time, or in a slice."""
        control = self._controls[name]
        return control.mode == "full" or bool(control.slices)

    def levels(self) -> Iterator[Reading]:
        """Modes, measured shares, errors and trap costs, as the agent's own metrics.

        And what is known of functions in mode `sampled`. Once a flush.
        """
        yield from self._sampled.readings()
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

    def _share(self, name: str, process: Process, traps_per_second: float) -> float:
        return self._weights.share(process, traps_per_second * self._controls[name].trap_seconds)

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
        """Share the budget of each process out among the functions that are counted in it.

        What is only looked at makes nobody else way: it returns where there is room beside them.
        """
        wanted = self._tell()
        fractions = dict.fromkeys(self._controls, 1.0)
        asked = [(process, own, tuple(own)) for process, own in wanted.items()]
        counted = [each for each in self._controls.values() if each.mode in {"full", "duty"}]
        for control in counted:
            if not control.is_watched:
                asked += [
                    (process, {**wanted.get(process, {}), control.name: share}, (control.name,))
                    for process, share in control.wanted.items()
                ]
        for process, own, names in asked:
            allowed = self._pool.allowed(self, process, own, self._settings.ratio)
            for name in names:
                if own[name] > allowed[name]:
                    fractions[name] = min(fractions[name], allowed[name] / own[name])
        for control in counted:
            fraction = fractions[control.name]
            control.allowance = self._settings.ratio if fraction == 1 else fraction * control.worst

    def _tell(self) -> dict[Process, dict[str, float]]:
        """Tell the others what these would take, by process and function."""
        wanted: dict[Process, dict[str, float]] = {}
        for control in self._controls.values():
            for process, share in control.wanted.items() if control.is_watched else ():
                wanted.setdefault(process, {})[control.name] = share
        self._pool.tell(self, wanted)
        return wanted

    def _choose(self, control: Control, now: float) -> Mode:
        if control.mode == "full":
            return self._choose_from_full(control)
        if control.mode == "duty":
            control.returning = control.is_calm(now)
            bearable = control.affordable if control.is_sliced else control.fraction == 1
            control.strikes = 0 if bearable or not control.looked else control.strikes + 1
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
            if rung == "sampled" and self._sampled.can(control.name):
                return "sampled"
        return "detached"

    def _can_stand_in(self, name: str) -> bool:
        other = self._controls.get(name)
        return other is not None and other.mode == "full" and self._sites.attached(name) > 0

    def _change(self, control: Control, mode: Mode, now: float, totals: Totals) -> None:
        if mode == control.mode:
            return
        if control.mode == "duty":
            self._ledger.end(control.name, now, totals)
        if control.mode == "sampled":
            self._sampled.end(control.name)
        if mode == "duty":
            self._ledger.begin(control.name, now, totals)
            control.begin_slices(now, self._chance)
        elif mode == "full":
            control.enter_full()
        else:
            control.wait(now)
        if mode == "sampled":
            self._sampled.begin(control.name)
        if mode != "full":
            self._slicing.suspend(control)
        control.mode, control.suspect = mode, False
        self._decisions.append(Decision(control.name, mode, control.worst))

    def _look(self, names: Sequence[str], read: Callable[[], Totals]) -> None:
        now = self._clock()
        if self._looked is not None and now - self._looked[0] < self._settings.slice.seconds:
            return
        totals = read()
        if self._looked is not None:
            for name in names:
                self._ledger.note(name, self._looked[1], totals, now - self._looked[0])
        self._looked = now, totals
