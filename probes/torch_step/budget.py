"""What `torch_step` may cost: groups of functions are watched all the time, or not at all.

A step and a wait are made of several traps, so what is seen now and then tells nothing: there are
no slices whose counts would be scaled. A group that is over the budget is let go, what depends on
it is not told, and the hottest goes first. It is looked at again later, as in probes/budget, and
what it then shows counts from the first interval in which nothing was missed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from probes.budget.governor import Governor
from probes.torch_step.accounts import WAITED_BY
from probes.torch_step.thread import GROUPS, NO_TRAPS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from engine.readings import Process, Reading
    from probes.budget.ledger import Key, Totals
    from probes.budget.settings import BudgetConfig
    from probes.functions.sites import FunctionSites
    from probes.sampling.addresses import Span
    from probes.torch_step.thread import Nanoseconds, ThreadKey, ThreadState


# A step takes wall time, whatever the rank waits for meanwhile: a GPU, other ranks or its data. So
# what traps take is held against one core, though the process itself uses less.
STEP_CORES = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """Functions as one, for a governor."""

    name: str
    colder: tuple[str, ...] = ()


class Budget:
    """See the module. `members`: by group, the names of its functions; one thread uses it.

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
        self._members = members
        self._on_gap = on_gap
        whole_or_not = settings.model_copy(update={"ladder": ()})
        groups = [Group(each) for each in GROUPS]
        self._governor = Governor(
            *("torch_step", self, groups, whole_or_not), least_cores=STEP_CORES
        )
        self._totals: dict[Key, tuple[float]] = {}
        self._seen: dict[ThreadKey, tuple[int, ...]] = {}
        # Groups that were missing at some time since the last step, and before it.
        self._gaps: frozenset[str] = frozenset()
        self._missed: frozenset[str] = frozenset()

    @property
    def let_go(self) -> frozenset[str]:
        """Groups that are not watched all the time."""
        modes = self._governor.modes()
        return frozenset(name for name, mode in modes.items() if mode != "full")

    @property
    def unseen(self) -> frozenset[str]:
        """Groups that were not watched all the time since the step before the last."""
        return self._missed | self.let_go

    def note(self, process: Process, threads: Mapping[ThreadKey, ThreadState]) -> None:
        """What a process ran into, by thread, as the kernel keeps it."""
        for thread, state in threads.items():
            before = self._seen.get(thread, NO_TRAPS)
            self._seen[thread] = state.traps
            for name, new, old in zip(GROUPS, state.traps, before, strict=True):
                (total,) = self._totals.get((name, process), (0.0,))
                self._totals[name, process] = (total + new - old,)

    def drop(self, threads: Iterable[ThreadKey]) -> None:
        """The kernel forgets these threads."""
        for thread in threads:
            self._seen.pop(thread, None)

    def poll(self, note: Callable[[], None]) -> None:
        """Begin and end the looks at groups that were let go; `note` notes what there is now."""

        def fresh() -> Totals:
            note()
            return dict(self._totals)

        self._gaps |= self.let_go
        self._governor.poll(fresh)

    def step(self) -> None:
        """Compare cost and budget, once an interval, when all was noted."""
        self._missed = self._gaps | self.let_go
        self._governor.step(dict(self._totals))
        self._gaps = self.let_go

    def forget(self, process: Process) -> None:
        """A process ended."""
        self._governor.forget(process)
        for key in [key for key in self._totals if key[1] == process]:
            del self._totals[key]

    def levels(self) -> Iterator[Reading]:
        """The budget's own metrics."""
        return self._governor.levels()

    def close(self) -> None:
        """Leave the budget to others."""
        self._governor.close()

    # What the governor does to breakpoints.

    def suspend(self, name: str) -> None:
        """Detach a group everywhere."""
        for each in self._members[name]:
            self._sites.suspend(each)

    def resume(self, name: str) -> None:
        """Attach it again."""
        for each in self._members[name]:
            self._sites.resume(each)
        if name in WAITED_BY:
            self._on_gap(time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    def attached(self, name: str) -> int:
        """Places at which it is attached: files, of each of its functions."""
        return sum(self._sites.attached(each) for each in self._members[name])

    def spans(self, name: str) -> Sequence[Span]:
        """Where its code lies."""
        return [span for each in self._members[name] for span in self._sites.spans(each)]

    def trap_codes(self, name: str) -> Sequence[bytes]:
        """The first bytes of each instruction at which it is or was attached."""
        return [code for each in self._members[name] for code in self._sites.trap_codes(each)]
