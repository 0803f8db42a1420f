"""How unlike its own past a series is, one point after another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from engine.baselines.anomaly.encoding import decode, encode
from engine.baselines.anomaly.explanation import Explanation
from engine.baselines.anomaly.settings import (
    COOL_DOWN_POINTS,
    DEFAULT_LEARNING,
    FADE,
    FIRST_POINTS,
    HOLD_POINTS,
    KNOWN_DAYS,
    LARGEST_RATIO,
    LARGEST_VALUE,
    LEAST_OF_LEVEL,
    LEAST_OF_RANGE,
    LONG_POINTS,
    PATTERN_MARGIN,
    SHAPE_POINTS,
    SHORT_POINTS,
    STRONGER,
    VALUE_MARGIN,
    WARM_POINTS,
    Learning,
)
from engine.baselines.anomaly.threshold import ANOMALY_THRESHOLD
from engine.baselines.statistics.daily_range import DailyRange
from engine.baselines.statistics.discord import Discord
from engine.baselines.statistics.moments import FadingMoments
from engine.baselines.statistics.record import FadingRecord

if TYPE_CHECKING:
    from engine.series import Float64Array, Int64Array

__all__ = ["ANOMALY_THRESHOLD", "MODEL_VERSION", "AnomalyModel", "fold"]

# Another version folds to other bits: states and scores that an older one saved are not used.
MODEL_VERSION: Final = 1

# What is compared with its own record: how far the value is above and below the long-run level
# (novelty of range), how far the level of the moment is from it, the spread of the moment, how far
# the value is from the level of the moment, outside the range of its hour, and from every shape.
PARTS: Final = ("above", "below", "level", "variance", "jump", "hour", "shape")
MARGINS: Final = (*(VALUE_MARGIN,) * 5, *(PATTERN_MARGIN,) * 2)
# The highest score that is no onset.
BELOW: Final = math.nextafter(ANOMALY_THRESHOLD, 0.0)
_OWN: Final = 9
_SHAPE: Final = PARTS.index("shape")


class AnomalyModel:
    """The fold of one element: `update` with each of its points, in order of time.

    A point that is not later than the one before it, and a value that is not finite, change
    nothing: their score is the last one.
    """

    __slots__ = (
        "_band",
        "_cooling",
        "_discord",
        "_hours",
        "_learning",
        "_long",
        "_onset",
        "_paused",
        "_points",
        "_records",
        "_score",
        "_short",
        "_strengths",
        "_time_ms",
    )

    SIZE = (
        _OWN
        + len(PARTS)
        + 2 * FadingMoments.SIZE
        + len(PARTS) * FadingRecord.SIZE
        + DailyRange.SIZE
        + Discord.SIZE
    )

    def __init__(self, learning: Learning = DEFAULT_LEARNING) -> None:
        self._learning = learning
        self._time_ms: float = -math.inf
        self._points = 0.0
        self._cooling = 0.0
        self._paused = 0.0
        self._onset = 0.0
        self._score = math.nan
        self._band = (-math.inf, math.inf)
        self._strengths = [0.0] * len(PARTS)
        self._short = FadingMoments(1.0 / SHORT_POINTS)
        self._long = FadingMoments(1.0 / LONG_POINTS)
        self._records = [FadingRecord(HOLD_POINTS, FADE) for _ in PARTS]
        self._hours = DailyRange(KNOWN_DAYS)
        self._discord = Discord()

    @property
    def ready(self) -> bool:
        """Whether it has seen enough to score."""
        return self._points >= WARM_POINTS

    def update(self, time_ms: int, value: float) -> float:
        """Take a point (unix milliseconds, any value); its score in 0..1, NaN while not warm."""
        if time_ms <= self._time_ms or not math.isfinite(value):
            return self._score
        self._time_ms = float(time_ms)
        if abs(value) > LARGEST_VALUE:
            value = math.copysign(LARGEST_VALUE, value)
        departures = self._departures(time_ms, value)
        self._compare(departures)
        if self._points >= WARM_POINTS:
            self._score = self._told()
        self._points += 1.0
        for record, departure in zip(self._records, departures, strict=True):
            record.update(departure)
        self._learn(time_ms, value)
        return self._score

    def _departures(self, time_ms: int, value: float) -> list[float]:
        """How far the point is from what was usual, by part; the moment takes it in."""
        short, level = self._short, self._long.mean
        before = short.mean
        short.update(value)
        apart = self._discord.update(value)
        if not self._points:
            return [0.0] * len(PARTS)
        departures = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, apart]
        delta = value - level
        departures[0 if delta > 0.0 else 1] = abs(delta)
        if self._points >= FIRST_POINTS:
            departures[2] = abs(short.mean - level)
            departures[3] = math.sqrt(short.variance)
            departures[4] = abs(value - before)
        lowest, highest = self._hours.get(time_ms)
        if value > highest:
            departures[5] = value - highest
        elif value < lowest:
            departures[5] = lowest - value
        return departures

    def _compare(self, departures: list[float]) -> None:
        """How many times what an onset takes each departure is; the band if nothing is going on."""
        records = self._records
        above, below = records[0].record, records[1].record
        level = self._long.mean if self._points else 0.0
        least = max(LEAST_OF_RANGE * (above + below), LEAST_OF_LEVEL * abs(level))
        strengths = self._strengths
        for i, departure in enumerate(departures):
            if departure == 0.0 or (i == _SHAPE and self._points < SHAPE_POINTS):
                strengths[i] = 0.0
                continue
            record = records[i].record
            bar = record if record > least else least
            ratio = departure / bar if bar > 0.0 else LARGEST_RATIO
            strengths[i] = (ratio if ratio < LARGEST_RATIO else LARGEST_RATIO) / MARGINS[i]
        if not self._paused:
            self._band = (level - max(below, least), level + max(above, least))

    def _told(self) -> float:
        """The score: from the threshold on for an onset, below it otherwise."""
        strength = max(self._strengths)
        score = strength / (1.0 + strength)
        onset = score >= ANOMALY_THRESHOLD
        if self._cooling:
            self._cooling -= 1.0
            if strength < STRONGER * self._onset:
                return BELOW if onset else score
        if onset:
            self._cooling = float(COOL_DOWN_POINTS)
            self._onset = strength
            if self._learning.pause and not self._paused:
                self._paused = 1.0
        return score

    def _learn(self, time_ms: int, value: float) -> None:
        """Let the long run and the hours have the point, unless something abnormal goes on."""
        if self._paused:
            short = self._short
            lowest, highest = self._band
            if lowest <= short.mean <= highest and lowest <= value <= highest:
                self._paused = 0.0
            elif self._paused > self._learning.accept_points:
                self._paused = 0.0
                self._long.restore([1.0, short.mean, short.variance])
            else:
                self._paused += 1.0
                return
        self._long.update(value)
        self._hours.update(time_ms, value)

    def explain(self) -> Explanation:
        """What the last point was compared with."""
        strengths = dict(zip(PARTS, self._strengths, strict=True))
        return Explanation(
            score=self._score,
            part=max(strengths, key=lambda part: strengths[part]),
            strengths=strengths,
            band=self._band,
        )

    def state(self) -> bytes:
        """All that it knows; a model from it goes on with the same bits."""
        return encode(MODEL_VERSION, self.numbers())

    def numbers(self) -> list[float]:
        """All that it knows, `SIZE` numbers."""
        learning = self._learning
        own = [self._time_ms, self._points, self._cooling, self._paused, self._score, *self._band]
        return [
            *own,
            float(learning.accept_points) if learning.pause else -1.0,
            self._onset,
            *self._strengths,
            *self._short.numbers(),
            *self._long.numbers(),
            *(number for record in self._records for number in record.numbers()),
            *self._hours.numbers(),
            *self._discord.numbers(),
        ]

    @classmethod
    def from_state(cls, state: bytes) -> AnomalyModel:
        """The model whose state this is; StallwatchError for another version or other bytes."""
        model = cls()
        model.restore(decode(MODEL_VERSION, state, cls.SIZE))
        return model

    def restore(self, numbers: list[float]) -> None:
        """Become the model that told these `SIZE` numbers."""
        rest = iter(numbers)

        def take(count: int) -> list[float]:
            return [next(rest) for _ in range(count)]

        own = take(_OWN)
        accept = own[7]
        self._learning = Learning(pause=accept >= 0.0, accept_points=max(int(accept), 0))
        self._time_ms, self._points, self._cooling, self._paused, self._score = own[:5]
        self._band, self._onset = (own[5], own[6]), own[8]
        self._strengths = take(len(PARTS))
        self._short.restore(take(FadingMoments.SIZE))
        self._long.restore(take(FadingMoments.SIZE))
        for record in self._records:
            record.restore(take(FadingRecord.SIZE))
        self._hours.restore(take(DailyRange.SIZE))
        self._discord.restore(take(Discord.SIZE))


def fold(model: AnomalyModel, times: Int64Array, values: Float64Array) -> Float64Array:
    """The scores of points one after another, [T]; times in unix milliseconds.

    The bits are those of `update`, however the points are cut into calls.
    """
    update = model.update
    points = zip(times.tolist(), values.tolist(), strict=True)
    return np.array([update(time, value) for time, value in points], dtype=np.float64)
