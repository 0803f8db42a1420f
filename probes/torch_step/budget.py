"""What `torch_step` may cost: groups of functions are watched whole, or not at all.

A step and a wait are made of several traps, so single calls that are seen now and then tell
nothing: no count is scaled. A group that is over the budget is let go, what depends on it is not
told, and the hottest goes first. It is looked at again later, as in probes/budget, and what it then
shows counts from the first interval in which nothing was missed.

What waits are told by, except the steps themselves, is let go in slices: they are longer than two
intervals, so that one interval at least lies whole in each. Its ratio is told, and stands until the
next slice has one: a share of time suits slices, as a count does not.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from engine.config.quantities import Interval
from probes.budget.governor import Governor
from probes.torch_step.accounts import WAITED_BY
from probes.torch_step.thread import FLIGHTS, GROUPS, NO_TRAPS, WAITS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from engine.readings import Process, Reading
    from probes.budget.control import Mode
    from probes.budget.ledger import Key, Totals
    from probes.budget.settings import BudgetConfig
    from probes.functions.sites import FunctionSites
    from probes.sampling.addresses import Span
    from probes.torch_step.thread import Nanoseconds, ThreadKey, ThreadState


# A step takes wall time, whatever the rank waits for meanwhile: a GPU, other ranks or its data. So
# what traps take is held against one core, though the process itself uses less.
STEP_CORES = 1.0


# Flushes are 10 s apart, and polls may come late: one interval at least lies within.
LEAST_SLICE = Interval(25_000)
# What is put under the budget as one, of the groups that the kernel counts. The waits of a job on
# Gloo are held against those of Gloo's threads: one without the other tells nothing.
SLICED = {WAITS: (WAITS, FLIGHTS)}
WHOLE = {group: (group,) for group in GROUPS if group not in {WAITS, FLIGHTS}}
GOVERNED = {**WHOLE, **SLICED}


@dataclass(frozen=True, slots=True)
class Group:
    """Functions as one, for a governor."""

    name: str
    colder: tuple[str, ...] = ()


class Budget:
    """See the module. `members`: by kernel group, the names of its functions; one thread uses it.

    `on_gap` is called with the time from which on a group that waits need is watched again.
    """

    def __init__(
        self,
        sites: FunctionSites,
        members: Mapping[str, Sequence[str]],
        settings: BudgetConfig,
        on_gap: Callable[[Nanoseconds], None],
    ) -> None:
        self._sites = sites
        self._members = {
            name: [each for group in groups for each in members[group]]
            for name, groups in GOVERNED.items()
        }
        self._on_gap = on_gap
        length = max(LEAST_SLICE, settings.slice, key=lambda each: each.ms)
        longest = max(settings.longest_period.ms, 2 * length.ms)
        sliced = {"slice": length, "longest_period": Interval(longest), "ladder": ("duty",)}
        self._governors = [
            Governor(
                *("torch_step", self, [Group(name) for name in names]),
                settings.model_copy(update=changed),
                least_cores=STEP_CORES,
            )
            for names, changed in ((WHOLE, {"ladder": ()}), (SLICED, sliced))
        ]
        self._totals: dict[Key, tuple[float]] = {}
        self._seen: dict[ThreadKey, tuple[int, ...]] = {}
        # Groups that were missing at some time since the last step, and before it.
        self._gaps: frozenset[str] = frozenset()
        self._missed: frozenset[str] = frozenset()

    @property
    def let_go(self) -> frozenset[str]:
        """Kernel groups of which not everything is seen at this moment."""
        return frozenset(
            group
            for governor in self._governors
            for name in governor.modes()
            if not governor.is_watching(name)
            for group in GOVERNED[name]
        )

    @property
    def unseen(self) -> frozenset[str]:
        """Kernel groups that were not watched all the time since the step before the last."""
        return self._missed | self.let_go

    @property
    def modes(self) -> dict[str, Mode]:
        """By governed group."""
        return {name: mode for each in self._governors for name, mode in each.modes().items()}

    @property
    def in_slices(self) -> bool:
        """Whether a share of time waited stands until the next slice shows another one."""
        return self.modes[WAITS] == "duty" and self.unseen <= set(SLICED[WAITS])

    def note(self, process: Process, threads: Mapping[ThreadKey, ThreadState]) -> None:
        """What a process ran into, by thread, as the kernel keeps it."""
        for thread, state in threads.items():
            before = self._seen.get(thread, NO_TRAPS)
            self._seen[thread] = state.traps
            for group, new, old in zip(GROUPS, state.traps, before, strict=True):
                name = WAITS if group == FLIGHTS else group
                (total,) = self._totals.get((name, process), (0.0,))
                self._totals[name, process] = (total + new - old,)

    def drop(self, threads: Iterable[ThreadKey]) -> None:
        """The kernel forgets these threads."""
        for thread in threads:
            self._seen.pop(thread, None)

    def poll(self, note: Callable[[], None]) -> None:
        """Begin and end slices, and looks at what was let go; `note` notes what there is now."""

        def fresh(governor: Governor) -> Totals:
            note()
            return self._of(governor)

        before = self.let_go
        self._gaps |= before
        for governor in self._governors:
            governor.poll(partial(fresh, governor))
        if (before - self.let_go) & WAITED_BY:
            self._on_gap(time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    def step(self) -> None:
        """Compare cost and budget, once an interval, when all was noted."""
        self._missed = self._gaps | self.let_go
        for governor in self._governors:
            governor.step(self._of(governor))
        self._gaps = self.let_go

    def forget(self, process: Process) -> None:
        """A process ended."""
        for governor in self._governors:
            governor.forget(process)
        for key in [key for key in self._totals if key[1] == process]:
            del self._totals[key]

    def levels(self) -> Iterator[Reading]:
        """The budget's own metrics."""
        for governor in self._governors:
            yield from governor.levels()

    def close(self) -> None:
        """Leave the budget to others."""
        for governor in self._governors:
            governor.close()

    def _of(self, governor: Governor) -> Totals:
        governed = governor.modes()
        return {key: traps for key, traps in self._totals.items() if key[0] in governed}

    # What a governor does to breakpoints.

    def suspend(self, name: str) -> None:
        """Detach a group everywhere."""
        for each in self._members[name]:
            self._sites.suspend(each)

    def resume(self, name: str) -> None:
        """Attach it again."""
        for each in self._members[name]:
            self._sites.resume(each)

    def attached(self, name: str) -> int:
        """Places at which it is attached: files, of each of its functions."""
        return sum(self._sites.attached(each) for each in self._members[name])

    def spans(self, name: str) -> Sequence[Span]:
        """Where its code lies."""
        return [span for each in self._members[name] for span in self._sites.spans(each)]

    def trap_codes(self, name: str) -> Sequence[bytes]:
        """The first bytes of each instruction at which it is or was attached."""
        return [code for each in self._members[name] for code in self._sites.trap_codes(each)]
