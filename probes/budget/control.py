"""The state of one function under its budget: its mode, its slices, its way back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from probes.budget.schedule import Schedule

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from engine.readings import Process
    from probes.budget.contention import Turns
    from probes.budget.ledger import Key, Totals
    from probes.budget.settings import BudgetConfig
    from probes.budget.traps import TrapCosts

Mode = Literal["full", "colder", "duty", "sampled", "detached"]
# Waiting times double with each relapse, up to this many times.
MAX_DOUBLINGS = 6
# A stratum is at least this many slices long: at half of the time the way back to "full" is near.
LEAST_STRATUM = 2.0
# The share of an allowance that slices aim at: a trap also costs caches, which no calibration sees.
AIM = 0.75


@dataclass(slots=True)
class Slice:
    """A slice that is being watched, and the stratum that it stands for.

    `before`, `turns`: counts, and CPU time by process, as they were when it began.
    """

    start: float
    length: float
    opened: float
    slack: float
    before: Totals
    turns: Mapping[Process, Turns]


@dataclass(slots=True)
class Control:
    """One function.

    `wanted`: by process, the share that it would take if it were watched all the time; `allowance`
    what the worst of them may take. `relapses`: how often the way back led nowhere.
    """

    name: str
    settings: BudgetConfig
    mode: Mode = "full"
    wanted: dict[Process, float] = field(default_factory=dict)
    allowance: float = 0.0
    # Worst process, over the last step, as measured.
    ratio: float = 0.0
    suspect: bool = False
    relapses: int = 0
    strikes: int = 0
    calm_since: float | None = None
    retry_at: float = 0.0
    schedule: Schedule | None = None
    slices: list[Slice] = field(default_factory=list)
    # Whether a slice has shown what it would take now.
    looked: bool = True
    suspended: bool = False
    # Files in which it was attached when it was suspended.
    files: int = 0
    returning: bool = False
    # Of one trap, and what that was worked out for: costs and number of files.
    trap_seconds: float = 0.0
    priced: tuple[TrapCosts, int] | None = None
    # How long a slice really costs: attaching, detaching and late polls included.
    on_seconds: float = 0.0
    # Calls when the newest slice began.
    opened: dict[Key, float] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """The share that it would take of the worst process."""
        return max(self.wanted.values(), default=0.0)

    @property
    def fraction(self) -> float:
        """The share of time for which it may be watched."""
        return min(1.0, self.allowance / self.worst) if self.worst > 0 else 1.0

    def stratum_seconds(self) -> float:
        """How long the next stratum is, so that one slice in it keeps the budget."""
        one = max(self.on_seconds, self.settings.slice.seconds)
        longest = self.settings.longest_period.seconds
        needed = one / max(AIM * self.fraction, 1e-9)
        return min(max(needed, LEAST_STRATUM * one), longest)

    @property
    def affordable(self) -> bool:
        """Whether one slice in the longest stratum keeps the budget."""
        longest = self.settings.longest_period.seconds
        return self.fraction * longest >= self.settings.slice.seconds

    def begin_slices(self, now: float, chance: random.Random) -> None:
        """Enter the duty cycle; of one that was not counted the first slice comes soon."""
        self.looked = self.mode == "full"
        soon = LEAST_STRATUM * self.settings.slice.seconds
        length = self.stratum_seconds() if self.looked else soon
        self.schedule = Schedule(now, length, chance)
        self.slices, self.opened = [], {}
        self.calm_since, self.strikes, self.returning = None, 0, False

    def enter_full(self) -> None:
        """Watched all the time again; should it come back, it stays longer."""
        self.relapses += 1
        self.schedule, self.slices, self.returning = None, [], False

    def wait(self, now: float) -> None:
        """Leave it; look again after a time that doubles."""
        self.retry_at = now + self.settings.retry.seconds * 2 ** min(self.relapses, MAX_DOUBLINGS)
        self.relapses += 1
        self.schedule = None
        self.slices = []

    @property
    def is_sliced(self) -> bool:
        """Whether slices are a way to count it, and not only to look at what it would take."""
        return "duty" in self.settings.ladder

    @property
    def is_watched(self) -> bool:
        """Whether it takes what it wants, all the time or in slices, and is not only looked at."""
        return self.mode == "full" or (self.mode == "duty" and self.is_sliced and self.looked)

    def is_calm(self, now: float) -> bool:
        """Whether it has needed little of its allowance for long enough; asked each step.

        Little is half; all of it where nothing is told of what slices show.
        """
        if not self.looked or self.worst > (0.5 if self.is_sliced else 1.0) * self.allowance:
            self.calm_since = None
            return False
        if self.calm_since is None:
            self.calm_since = now
        patience = self.settings.calm.seconds * 2 ** min(self.relapses, MAX_DOUBLINGS)
        return bool(now - self.calm_since >= patience)
