"""The points of a baseline's elements, and how late they may come."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.series import Float64Array, Int64Array

# An element: its labels, and whether their name is to go at the end of the evaluation.
Key: TypeAlias = "tuple[Labels, bool]"
# A sample may reach an evaluation so much after its time: what rules record with a query offset.
LATE_MS = 300_000


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of one element: int64[N], unix milliseconds, increasing; float64[N]."""

    key: Key
    times_ms: Int64Array
    values: Float64Array

    def after(self, time_ms: int) -> Points:
        """Those later than a time."""
        if not len(self.times_ms) or self.times_ms[0] > time_ms:
            return self
        first = int(np.searchsorted(self.times_ms, time_ms, side="right"))
        return Points(self.key, self.times_ms[first:], self.values[first:])
