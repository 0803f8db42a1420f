"""The slowest that each function was called lately, while it was watched all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from probes.budget.ledger import Key

# A load that paused within so many seconds (up to twice as many) is expected to pause again.
MEMORY_SECONDS = 300.0


class Lows:
    """Of each key the lowest rate over one step, in this stretch of time and the one before."""

    def __init__(self) -> None:
        self._now: dict[Key, float] = {}
        self._before: dict[Key, float] = {}
        self._last: dict[Key, float] = {}
        self._until = 0.0

    def turn(self, now: float) -> None:
        """Forget what is older than two stretches; before the rates of a step are noted."""
        self._last = {}
        if now >= self._until:
            self._before, self._now, self._until = self._now, {}, now + MEMORY_SECONDS

    def note(self, key: Key, low: float, rate: float) -> None:
        """The rate over a step; `low` is 0 where there was no call before."""
        self._last[key] = rate
        self._now[key] = min(low, self._now.get(key, low))

    def swinging(self, keys: Iterable[Key]) -> Iterator[Key]:
        """Those that were seen at less than half of the last step's rate."""
        for key in keys:
            rate = self._last.get(key, 0.0)
            if min(self._now.get(key, rate), self._before.get(key, rate)) < rate / 2:
                yield key
