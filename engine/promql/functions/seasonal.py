"""The newest sample against those of the same time in earlier seasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import InvalidParameter
from engine.promql.finite import scores, usable
from rules.promql.parameters import LEAST_SEASONS, MOST_SEASONS

if TYPE_CHECKING:
    from engine.promql.bounds import IndexArray
    from engine.promql.windows import Block, Folded
    from engine.series import BoolArray, Float64Array, Int64Array

# A sample stands for its season if it is this share of a period or less beside its time.
BESIDE = 1 / 20


def seasonal_zscore(block: Block) -> Folded:
    """How unusual the newest sample is among those of its time in earlier seasons.

    **Formula.** `seasonal_zscore(x[8d], 1d)`: with period P and the newest sample x at t, the
    samples nearest to t - P, t - 2 P, … that the window holds, as many whole periods as it is long,
    have the mean m and the standard deviation s (of a sample, over their number less one); the
    score is `(x - m) / s`. A sample more than P / 20 beside its time counts as missing; of two
    equally near ones the earlier counts. 0 if all of them equal x; ±Inf if they equal each other
    and not x.

    **Source.** The z-score of a subseries of a season as in R. Cleveland et al., *STL*, 1990.

    **Warm-up.** Three earlier seasons: a window of more than three periods.

    **Cost.** One search for each season, whatever the samples in it.

    **Absent.** Where fewer than three seasons have their sample, or one of the window's samples is
    NaN or infinite. A period of less than a thousandth of the window, or of more than a third, is
    an error.
    """
    (period,) = block.params
    longest = block.range_ms / 1000 / LEAST_SEASONS
    # Times are whole milliseconds.
    shortest = max(0.001, block.range_ms / 1000 / MOST_SEASONS)
    bad = period[~((period >= shortest) & (period <= longest))]
    if bad.size:
        raise InvalidParameter(
            f"invalid period. Expected: at least a thousandth and at most a third of the window, "
            f"{shortest:g} to {longest:g} seconds, got: {bad[0]:g}"
        )
    found, present = _earlier(block, period)
    number = np.maximum(present.sum(axis=0), 2)
    newest = block.newest()
    with np.errstate(all="ignore"):
        # Differences from the newest: of a constant nothing is left.
        away = np.where(present, found / 2 - newest / 2, 0.0)
        mean = _in_order(away) / number
        spread = np.where(present, away - mean, 0.0)
        largest = np.abs(spread).max(axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        deviation = unit * np.sqrt(_in_order((spread / unit) ** 2) / (number - 1))
        score = scores(-mean, deviation)
    alive = usable(block, 1) & (present.sum(axis=0) >= LEAST_SEASONS)
    return np.where(alive, score, 0.0), alive


def _earlier(block: Block, period: Float64Array) -> tuple[Float64Array, BoolArray]:
    """The samples of earlier seasons, and which there are: [seasons, S, T]."""
    period_ms = np.round(period * 1000)
    seasons = int(np.floor(block.range_ms / period_ms).max(initial=0))
    newest_ms = block.bounds.times_at(block.bounds.newest)
    shape = (seasons, *block.shape)
    found, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    for number in range(1, seasons + 1):
        wanted = newest_ms - number * period_ms
        # Within the window: what lies before it must not matter.
        place = np.clip(_nearest(block, wanted), block.lo, np.maximum(block.hi, 1) - 1)
        when = block.times_at(place)
        inside = np.abs(when - wanted) <= period_ms * BESIDE
        inside &= block.bounds.filled & (number * period_ms <= block.range_ms)
        present[number - 1] = inside
        found[number - 1] = block.at(place)
    return found, present


def _nearest(block: Block, wanted: Float64Array) -> IndexArray:
    """The numbers of the samples nearest to these times, of two the earlier: [T] or [S, T]."""
    times = block.bounds.timestamps_ms
    if times.ndim == 1:
        return _nearest_in(times, wanted)
    return np.stack([_nearest_in(one, row) for one, row in zip(times, wanted, strict=True)])


def _nearest_in(times: Int64Array, wanted: Float64Array) -> IndexArray:
    after = np.clip(np.searchsorted(times, wanted), 1, max(times.size - 1, 1))
    before = after - 1
    after = np.minimum(after, times.size - 1)
    return np.where(np.abs(times[after] - wanted) < np.abs(wanted - times[before]), after, before)


def _in_order(values: Float64Array) -> Float64Array:
    """The sum over the seasons, one after another."""
    total: Float64Array = np.add.accumulate(values, axis=0)[-1]
    return total
