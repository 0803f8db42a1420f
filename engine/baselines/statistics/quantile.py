"""A quantile of all values so far, from five numbers."""

from __future__ import annotations

import math


class StreamingQuantile:
    """The P² estimate of a quantile (Jain and Chlamtac 1985, CACM 28(10)).

    Five markers: the smallest value, the largest, the quantile and two between. Up to five values
    it is exact by linear interpolation; without any, NaN.
    """

    __slots__ = ("heights", "positions", "probability", "wanted")

    SIZE = 15

    def __init__(self, probability: float) -> None:
        self.probability = probability
        self.heights: list[float] = []
        self.positions = [1.0, 2.0, 3.0, 4.0, 5.0]
        p = probability
        self.wanted = [1.0, 1.0 + 2.0 * p, 1.0 + 4.0 * p, 3.0 + 2.0 * p, 5.0]

    def update(self, value: float) -> None:
        """Take a finite value."""
        heights = self.heights
        if len(heights) < 5:
            heights.append(value)
            heights.sort()
            return
        if value < heights[0]:
            heights[0] = value
            cell = 0
        elif value >= heights[4]:
            heights[4] = value
            cell = 3
        else:
            cell = 0
            while value >= heights[cell + 1]:
                cell += 1
        for i in range(cell + 1, 5):
            self.positions[i] += 1.0
        p = self.probability
        steps = (0.0, p / 2.0, p, (1.0 + p) / 2.0, 1.0)
        for i in range(5):
            self.wanted[i] += steps[i]
        for i in (1, 2, 3):
            self._move(i)

    def _move(self, i: int) -> None:
        """Move a marker that is a whole place away from where it belongs."""
        heights, places = self.heights, self.positions
        away = self.wanted[i] - places[i]
        if away >= 1.0 and places[i + 1] - places[i] > 1.0:
            step = 1
        elif away <= -1.0 and places[i - 1] - places[i] < -1.0:
            step = -1
        else:
            return
        before, after = places[i] - places[i - 1], places[i + 1] - places[i]
        rise = (heights[i + 1] - heights[i]) / after
        fall = (heights[i] - heights[i - 1]) / before
        parabola = heights[i] + step / (before + after) * (
            (before + step) * rise + (after - step) * fall
        )
        if heights[i - 1] < parabola < heights[i + 1]:
            heights[i] = parabola
        else:
            heights[i] += step * (heights[i + step] - heights[i]) / (places[i + step] - places[i])
        places[i] += step

    def get(self) -> float:
        """The estimate."""
        heights = self.heights
        if not heights:
            return math.nan
        if len(heights) == 5:
            return heights[2] if self.positions[4] > 5.0 else self._exact()
        return self._exact()

    def _exact(self) -> float:
        """The quantile of at most five values, by linear interpolation."""
        place = self.probability * (len(self.heights) - 1)
        below = min(int(place), len(self.heights) - 2) if len(self.heights) > 1 else 0
        above = min(below + 1, len(self.heights) - 1)
        return self.heights[below] + (place - below) * (self.heights[above] - self.heights[below])

    def numbers(self) -> list[float]:
        """All that it knows, `SIZE` numbers."""
        absent = [math.nan] * (5 - len(self.heights))
        return [*self.heights, *absent, *self.positions, *self.wanted]

    def restore(self, numbers: list[float]) -> None:
        """Become what `numbers` told."""
        self.heights = [height for height in numbers[:5] if not math.isnan(height)]
        self.positions, self.wanted = list(numbers[5:10]), list(numbers[10:15])
