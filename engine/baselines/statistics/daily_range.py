"""The range that a value has at each hour of the day."""

from __future__ import annotations

import math
from typing import Final

DAY_MS: Final = 86_400_000
HOURS: Final = 24


class DailyRange:
    """Smallest and largest value of each hour of the day (UTC), over all days.

    An hour is known once it was seen on `days` days; before that nothing is outside it.
    """

    __slots__ = ("day", "days", "highest", "lowest", "seen")

    SIZE = 4 * HOURS

    def __init__(self, days: int) -> None:
        self.days = days
        self.lowest = [math.inf] * HOURS
        self.highest = [-math.inf] * HOURS
        self.seen = [0.0] * HOURS
        self.day = [-math.inf] * HOURS

    def update(self, time_ms: int, value: float) -> None:
        """Take a value at its time (unix milliseconds)."""
        hour = time_ms % DAY_MS * HOURS // DAY_MS
        day = time_ms // DAY_MS
        if day != self.day[hour]:
            self.day[hour] = float(day)
            self.seen[hour] += 1.0
        self.lowest[hour] = min(self.lowest[hour], value)
        self.highest[hour] = max(self.highest[hour], value)

    def get(self, time_ms: int) -> tuple[float, float]:
        """The range at that time of day; (-inf, inf) while it is not known."""
        hour = time_ms % DAY_MS * HOURS // DAY_MS
        if self.seen[hour] < self.days:
            return -math.inf, math.inf
        return self.lowest[hour], self.highest[hour]

    def numbers(self) -> list[float]:
        """All that it knows, `SIZE` numbers."""
        return [*self.lowest, *self.highest, *self.seen, *self.day]

    def restore(self, numbers: list[float]) -> None:
        """Become what `numbers` told."""
        parts = [list(numbers[i * HOURS : (i + 1) * HOURS]) for i in range(4)]
        self.lowest, self.highest, self.seen, self.day = parts
