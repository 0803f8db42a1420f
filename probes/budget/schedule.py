"""When to watch: one slice in each stratum, at a place drawn anew.

A slice's start is uniform over its whole stratum, and the slice may reach into the next one. So
every moment is as likely to be watched as any other, those at the borders of strata too, and
whoever times a load by the strata gains nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


class Schedule:
    """The strata of one function. Times in seconds of one clock."""

    def __init__(self, now: float, length: float, chance: random.Random) -> None:
        self._chance = chance
        self.start = now
        self.length = length
        self.due = now + chance.random() * length
        self.taken = False

    def take(self, now: float) -> tuple[float, float]:
        """The slice of this stratum begins, late perhaps: (start, length) of the stratum.

        A stratum whose slice came after its end is as long as that took.
        """
        self.taken = True
        self.length = max(self.length, now - self.start)
        return self.start, self.length

    def is_over(self, now: float) -> bool:
        """Whether the next stratum has begun."""
        return self.taken and now >= self.start + self.length

    def advance(self, length: float) -> None:
        """Draw the next stratum's slice; it begins where this stratum ends."""
        self.start += self.length
        self.length = length
        self.due = self.start + self._chance.random() * length
        self.taken = False
