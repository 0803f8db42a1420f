"""What depends on times only, worked out once for an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.windows import BoundsCache
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from engine.series import Int64Array


@dataclass(slots=True, eq=False)
class SharedTimes:
    """Arrays of times that follow from others, the same object each time, and windows' bounds."""

    bounds: BoundsCache = field(default_factory=BoundsCache)
    # The arrays that a key stands for are held, so that no identity is used twice.
    _held: dict[tuple[int, ...], tuple[Int64Array, Int64Array]] = field(default_factory=dict)

    def shifted(self, times_ms: Int64Array, fixed_ms: int | None, offset_ms: int) -> Int64Array:
        """int64[T]: each time, or `fixed_ms` instead, less an offset."""
        if fixed_ms is None and not offset_ms:
            return times_ms
        key = (id(times_ms), 0 if fixed_ms is None else 1, fixed_ms or 0, offset_ms)
        found = self._held.get(key)
        if found is None:
            from_ms = times_ms if fixed_ms is None else np.full(times_ms.size, fixed_ms, np.int64)
            found = self._held[key] = (times_ms, from_ms - offset_ms)
        return found[1]

    def multiples(self, first_ms: int, last_ms: int, step_ms: int) -> Int64Array:
        """first, first + step, … up to last: int64[T]."""
        key = (first_ms, last_ms, step_ms)
        found = self._held.get(key)
        if found is None:
            steps = np.arange(first_ms, last_ms + 1, step_ms, dtype=np.int64)
            found = self._held[key] = (steps, steps)
        return found[1]
