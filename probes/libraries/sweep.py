"""One walk over all processes, a part of it in each poll as far as its allowance goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import deque

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
