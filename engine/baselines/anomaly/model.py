"""How unlike its own past a series is, one point after another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from engine.baselines.anomaly.encoding import decode, encode
from engine.baselines.anomaly.threshold import ANOMALY_THRESHOLD
from engine.baselines.statistics.moments import FadingMoments
from engine.baselines.statistics.quantile import StreamingQuantile

if TYPE_CHECKING:
    from engine.series import Float64Array, Int64Array

__all__ = ["ANOMALY_THRESHOLD", "MODEL_VERSION", "AnomalyModel", "fold"]

# Another version folds to other bits: states and scores that an older one saved are not used.
MODEL_VERSION: Final = 1

# No score before so many points.
WARM_POINTS: Final = 60
# Points for which a new onset is not told.
COOL_DOWN_POINTS: Final = 60
# A departure this many times as large as the high quantile of its own past is an onset.
_ONSET: Final = 3.0


class AnomalyModel:
    """The fold of one element: `update` with each of its points, in order of time.

    A point that is not later than the one before it, and a value that is not finite, change
    nothing: their score is the last one.
    """

    __slots__ = ("_cooling", "_level", "_points", "_quantile", "_score", "_time_ms")

    _SIZE = 4 + FadingMoments.SIZE + StreamingQuantile.SIZE

    def __init__(self) -> None:
        self._time_ms: float = -math.inf
        self._points = 0
        self._cooling = 0
        self._score = math.nan
        self._level = FadingMoments(1 / 100)
        self._quantile = StreamingQuantile(0.99)

    @property
    def ready(self) -> bool:
        """Whether it has seen enough to score."""
        return self._points >= WARM_POINTS

    def update(self, time_ms: int, value: float) -> float:
        """Take a point (unix milliseconds, any value); its score in 0..1, NaN while not warm."""
        if time_ms <= self._time_ms or not math.isfinite(value):
            return self._score
        self._time_ms = time_ms
        departure = self._departure(value)
        if self.ready:
            self._score = self._scored(departure)
        self._points += 1
        self._quantile.update(departure)
        self._level.update(value)
        return self._score

    def _departure(self, value: float) -> float:
        """How many standard deviations the value is from the level."""
        mean, variance = self._level.get()
        if not variance > 0.0:
            return 0.0
        return abs(value - mean) / math.sqrt(variance)

    def _scored(self, departure: float) -> float:
        """The score of a departure: from the threshold on for an onset, below it otherwise."""
        usual = self._quantile.get() * _ONSET
        score = departure / (departure + usual) if departure + usual > 0.0 else 0.0
        if score < ANOMALY_THRESHOLD:
            self._cooling = max(self._cooling - 1, 0)
            return score
        if self._cooling:
            self._cooling -= 1
            return math.nextafter(ANOMALY_THRESHOLD, 0.0)
        self._cooling = COOL_DOWN_POINTS
        return score

    def state(self) -> bytes:
        """All that it knows; a model from it goes on with the same bits."""
        own = [self._time_ms, float(self._points), float(self._cooling), self._score]
        return encode(MODEL_VERSION, [*own, *self._level.numbers(), *self._quantile.numbers()])

    @classmethod
    def from_state(cls, state: bytes) -> AnomalyModel:
        """The model whose state this is; StallwatchError for another version or other bytes."""
        numbers = decode(MODEL_VERSION, state, cls._SIZE)
        model = cls()
        model._time_ms, points, cooling, model._score = numbers[:4]
        model._points, model._cooling = int(points), int(cooling)
        model._level.restore(numbers[4:7])
        model._quantile.restore(numbers[7:])
        return model


def fold(model: AnomalyModel, times: Int64Array, values: Float64Array) -> Float64Array:
    """The scores of points one after another, [T]; times in unix milliseconds.

    The bits are those of `update`, however the points are cut into calls.
    """
    update = model.update
    scores = [
        update(time, value) for time, value in zip(times.tolist(), values.tolist(), strict=True)
    ]
    return np.array(scores, dtype=np.float64)
