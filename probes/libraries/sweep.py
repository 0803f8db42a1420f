"""Walks over all processes, a part in each poll as far as the allowance goes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.aggregate.procfs import Procfs
    from probes.libraries.limits import Limits
    from probes.libraries.maps import FileKey

# Relative to reading maps: reading stat, and finding that a process is gone.
UNCHANGED_COST = 0.2
GONE_COST = 0.05


@dataclass(slots=True)
class Sweep:
    """`whole`: read everybody's maps; else only those of processes never seen before.

    `doubts`: the watch's count of files that may have lost their last user when the walk began;
    its end settles them. `linkers`, `programs`: what was met on the way.
    """

    pids: deque[int]
    whole: bool
    doubts: int
    linkers: set[FileKey] = field(default_factory=set)
    programs: set[FileKey] = field(default_factory=set)


class Allowance:
    """How many looks sweeps may make now: a burst at once, and a rate on average."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._looks = float(limits.sweep_burst)
        self._now = now

    def renew(self, limits: Limits, now: float) -> None:
        """Time has passed."""
        passed = max(0.0, now - self._now)
        self._looks = min(float(limits.sweep_burst), self._looks + passed * limits.sweep_rate)
        self._now = now

    @property
    def left(self) -> bool:
        """Whether another look may be made."""
        return self._looks >= 1

    def spend(self, cost: float) -> None:
        """A look was made."""
        self._looks -= cost


class Sweeper:
    """One walk at a time. `confirmed`: the doubts that walks have settled. One thread uses it."""

    def __init__(self, procfs: Procfs, limits: Limits, now: float) -> None:
        self._procfs = procfs
        self._allowance = Allowance(limits, now)
        self._seen: dict[int, int] = {}
        self._next = 0.0
        self.current: Sweep | None = None
        self.confirmed = 0

    def renew(self, limits: Limits, now: float) -> None:
        """A poll begins: more looks may be made."""
        self._allowance.renew(limits, now)
        if len(self._seen) > limits.max_remembered:
            self._seen.clear()

    def is_due(self, now: float) -> bool:
        """Whether everything is to be walked over again."""
        return now >= self._next

    def hasten(self) -> None:
        """It is, now."""
        self._next = 0.0

    def note(self, pid: int, start_ticks: int) -> None:
        """A process is looked at."""
        self._seen[pid] = start_ticks

    def begin(self, doubts: int) -> None:
        """Walk over those that were never looked at, once more."""
        self.current = Sweep(deque(self._procfs.pids()), whole=False, doubts=doubts)

    def begin_whole(self, doubts: int, next_time: float) -> frozenset[int]:
        """Walk over everybody, and again at a time; the processes that there are."""
        self._next = next_time
        self.current = Sweep(deque(self._procfs.pids()), whole=True, doubts=doubts)
        there = frozenset(self.current.pids)
        self._seen = {pid: start for pid, start in self._seen.items() if pid in there}
        return there

    def go_on(self, look: Callable[[int], bool]) -> Sweep | None:
        """Look at some more, by `look`: whether a process is there. The walk, once it has ended."""
        sweep = self.current
        if sweep is None:
            return None
        while sweep.pids and self._allowance.left:
            pid = sweep.pids.popleft()
            if not sweep.whole and self._is_seen(pid):
                self._allowance.spend(UNCHANGED_COST)
            else:
                self._allowance.spend(1 if look(pid) else GONE_COST)
        if sweep.pids:
            return None
        self.current = None
        self.confirmed = sweep.doubts
        return sweep

    def _is_seen(self, pid: int) -> bool:
        stat = self._procfs.stat(pid)
        return stat is None or self._seen.get(pid) == stat.start_ticks
