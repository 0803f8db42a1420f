"""The model for many elements that share their times: one step of arithmetic for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from engine.baselines.anomaly.model import BELOW, MARGINS, PARTS, AnomalyModel
from engine.baselines.anomaly.settings import (
    COOL_DOWN_POINTS,
    FADE,
    FIRST_POINTS,
    HOLD_POINTS,
    KNOWN_DAYS,
    LARGEST_RATIO,
    LARGEST_VALUE,
    LEAST_OF_LEVEL,
    LEAST_OF_RANGE,
    LONG_POINTS,
    SHAPE_POINTS,
    SHORT_POINTS,
    STRONGER,
    WARM_POINTS,
)
from engine.baselines.anomaly.threshold import ANOMALY_THRESHOLD
from engine.baselines.statistics.daily_range import DAY_MS, HOURS
from engine.baselines.statistics.discord import BLOCK, KEPT, KNOWN, nearest
from engine.baselines.statistics.record import RENEWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from engine.series import Float64Array, Int64Array

# Where the numbers of `AnomalyModel.numbers` are.
TIME, POINTS, COOLING, PAUSED, SCORE, LOWEST, HIGHEST, ACCEPT, ONSET = range(9)
STRENGTHS: Final = 9
SHORT: Final = STRENGTHS + len(PARTS)
LONG: Final = SHORT + 3
RECORDS: Final = LONG + 3
DAILY: Final = RECORDS + 2 * len(PARTS)
TOTAL: Final = DAILY + 4 * HOURS
FILLED, COUNT, BLOCKS = TOTAL + 1, TOTAL + 2, TOTAL + 3
# Series whose shapes are compared at once: what is worked on stays in the cache.
AT_ONCE: Final = 64


def fold_many(
    models: Sequence[AnomalyModel], times: Int64Array, values: Float64Array
) -> Float64Array:
    """The scores of elements with common times, float64[S, T]; the models are moved on.

    Times are int64[T] unix milliseconds, values float64[S, T], NaN where an element has no point.
    The bits are those of `fold` for each element; the cost is a fraction where both S and T are
    large, and more than that where T is small.
    """
    scores = np.empty(values.shape)
    if not len(models):
        return scores
    state = np.array([model.numbers() for model in models]).T.copy()
    columns = np.ascontiguousarray(values.T)
    with np.errstate(all="ignore"):
        for step, time_ms in enumerate(times.tolist()):
            _step(state, time_ms, columns[step])
            scores[:, step] = state[SCORE]
    for model, numbers in zip(models, state.T.tolist(), strict=True):
        model.restore(numbers)
    return scores


def _step(state: Float64Array, time_ms: int, values: Float64Array) -> None:
    """Let each element that has a point at this time take it."""
    has = np.isfinite(values) & (state[TIME] < time_ms)
    if has.all():
        _update(state, np.arange(len(values)), state, time_ms, values)
    elif has.any():
        some = np.flatnonzero(has)
        part = state[:BLOCKS, some]
        _update(part, some, state, time_ms, values[some])
        state[:BLOCKS, some] = part


def _update(
    part: Float64Array,
    some: npt.NDArray[np.intp],
    state: Float64Array,
    time_ms: int,
    values: Float64Array,
) -> None:
    """`AnomalyModel.update` for the columns `some`, of which `part` has all but the blocks."""
    part[TIME] = float(time_ms)
    values = np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)
    departures = _departures(part, some, state, time_ms, values)
    _compare(part, departures)
    _tell(part)
    part[POINTS] += 1.0
    _keep_records(part, departures)
    _learn(part, time_ms, values)


def _moments(
    rows: Float64Array, points: int, values: Float64Array, where: npt.NDArray[np.bool_]
) -> None:
    """`FadingMoments.update` of weight, mean and variance."""
    weight, mean, variance = rows
    first = weight == 0.0
    new = np.where(first, 1.0, weight * (1.0 - 1.0 / points) + 1.0)
    share = 1.0 / new
    delta = values - mean
    step = share * delta
    np.copyto(
        variance, np.where(first, 0.0, (1.0 - share) * (variance + step * delta)), where=where
    )
    np.copyto(mean, np.where(first, values, mean + step), where=where)
    np.copyto(weight, new, where=where)


def _departures(
    part: Float64Array,
    some: npt.NDArray[np.intp],
    state: Float64Array,
    time_ms: int,
    values: Float64Array,
) -> Float64Array:
    """[parts, S]."""
    before = part[SHORT + 1].copy()
    _moments(part[SHORT : SHORT + 3], SHORT_POINTS, values, np.ones(len(values), dtype=bool))
    level = part[LONG + 1]
    delta = values - level
    departures = np.zeros((len(PARTS), len(values)))
    np.copyto(departures[0], delta, where=delta > 0.0)
    np.copyto(departures[1], np.abs(delta), where=~(delta > 0.0))
    known = part[POINTS] >= FIRST_POINTS
    np.copyto(departures[2], np.abs(part[SHORT + 1] - level), where=known)
    np.copyto(departures[3], np.sqrt(part[SHORT + 2]), where=known)
    np.copyto(departures[4], np.abs(values - before), where=known)
    hour = DAILY + time_ms % DAY_MS * HOURS // DAY_MS
    lowest, highest, seen = part[hour], part[hour + HOURS], part[hour + 2 * HOURS]
    known = seen >= KNOWN_DAYS
    np.copyto(departures[5], values - highest, where=known & (values > highest))
    np.copyto(departures[5], lowest - values, where=known & (values < lowest))
    departures[6] = _shapes(part, some, state, values)
    departures[:, part[POINTS] == 0.0] = 0.0
    return departures


def _shapes(
    part: Float64Array, some: npt.NDArray[np.intp], state: Float64Array, values: Float64Array
) -> Float64Array:
    """`Discord.update`: distances, 0 where no block was filled."""
    part[TOTAL] += values
    part[FILLED] += 1.0
    apart = np.zeros(len(values))
    full = np.flatnonzero(part[FILLED] >= BLOCK)
    for start in range(0, len(full), AT_ONCE):
        here = full[start : start + AT_ONCE]
        blocks = np.empty((KEPT, len(here)))
        blocks[:-1] = state[BLOCKS + 1 :, some[here]]
        blocks[-1] = part[TOTAL, here] / BLOCK
        state[BLOCKS:, some[here]] = blocks
        part[COUNT, here] = np.minimum(part[COUNT, here] + 1.0, float(KEPT))
        apart[here] = np.where(part[COUNT, here] >= KNOWN, nearest(blocks), 0.0)
    part[TOTAL, full] = part[FILLED, full] = 0.0
    return apart


def _compare(part: Float64Array, departures: Float64Array) -> None:
    above, below = part[RECORDS], part[RECORDS + 2]
    points = part[POINTS]
    level = np.where(points > 0.0, part[LONG + 1], 0.0)
    least = np.maximum(LEAST_OF_RANGE * (above + below), LEAST_OF_LEVEL * np.abs(level))
    bars = np.maximum(part[RECORDS:DAILY:2], least)
    ratios = np.where(bars > 0.0, departures / bars, LARGEST_RATIO)
    ratios = np.minimum(ratios, LARGEST_RATIO) / np.array(MARGINS)[:, np.newaxis]
    ratios[departures == 0.0] = 0.0
    ratios[-1, points < SHAPE_POINTS] = 0.0
    part[STRENGTHS:SHORT] = ratios
    calm = part[PAUSED] == 0.0
    np.copyto(part[LOWEST], level - np.maximum(below, least), where=calm)
    np.copyto(part[HIGHEST], level + np.maximum(above, least), where=calm)


def _tell(part: Float64Array) -> None:
    strength = part[STRENGTHS:SHORT].max(axis=0)
    score = strength / (1.0 + strength)
    warm = part[POINTS] >= WARM_POINTS
    onset = warm & (score >= ANOMALY_THRESHOLD)
    cooling = part[COOLING] > 0.0
    silent = cooling & (strength < STRONGER * part[ONSET])
    np.copyto(part[SCORE], np.where(silent & onset, BELOW, score), where=warm)
    part[COOLING, warm & cooling] -= 1.0
    begins = onset & ~silent
    part[ONSET, begins] = strength[begins]
    part[COOLING, begins] = float(COOL_DOWN_POINTS)
    part[PAUSED, begins & (part[PAUSED] == 0.0) & (part[ACCEPT] >= 0.0)] = 1.0


def _keep_records(part: Float64Array, departures: Float64Array) -> None:
    """`FadingRecord.update` of all parts."""
    records, ages = part[RECORDS:DAILY:2], part[RECORDS + 1 : DAILY : 2]
    faded = np.where(ages > HOLD_POINTS, records * (1.0 - FADE), records)
    under = departures < RENEWS * faded
    part[RECORDS + 1 : DAILY : 2] = np.where(under, ages + 1.0, 0.0)
    part[RECORDS:DAILY:2] = np.where(under, faded, np.maximum(faded, departures))


def _learn(part: Float64Array, time_ms: int, values: Float64Array) -> None:
    short, lowest, highest = part[SHORT + 1], part[LOWEST], part[HIGHEST]
    abnormal = part[PAUSED] > 0.0
    back = (lowest <= short) & (short <= highest) & (lowest <= values) & (values <= highest)
    accepted = abnormal & ~back & (part[PAUSED] > part[ACCEPT])
    waits = abnormal & ~back & ~accepted
    part[PAUSED] = np.where(waits, part[PAUSED] + 1.0, 0.0)
    part[LONG, accepted] = 1.0
    part[LONG + 1 : LONG + 3, accepted] = part[SHORT + 1 : SHORT + 3, accepted]
    learns = ~waits
    _moments(part[LONG : LONG + 3], LONG_POINTS, values, learns)
    hour = DAILY + time_ms % DAY_MS * HOURS // DAY_MS
    day = float(time_ms // DAY_MS)
    new = learns & (part[hour + 3 * HOURS] != day)
    part[hour + 3 * HOURS, new] = day
    part[hour + 2 * HOURS, new] += 1.0
    np.minimum(part[hour], values, out=part[hour], where=learns)
    np.maximum(part[hour + HOURS], values, out=part[hour + HOURS], where=learns)
