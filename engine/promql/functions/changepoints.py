"""Change-points: whether, when and by how much the level of a window changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.finite import Few, by_window, medians

if TYPE_CHECKING:
    from engine.promql.bounds import IndexArray
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array

LEAST = 8


def changepoint_pvalue_over_time(block: Block) -> Folded:
    """How likely a window as uneven as this one is, if its level never changed.

    **Formula.** Pettitt's test: with the samples' ranks rᵢ (equal ones share the mean of theirs),
    `U(k) = 2 Σ_{i ≤ k} rᵢ - k (n + 1)`, `K = max |U(k)|` and
    `p = min(1, 2 exp(-6 K² / (n³ + n²)))`. 1 for a constant. The approximation is good for p up to
    0.5 and, with ties, on the careful side. Neighbours are taken to be independent: what drifts
    slowly looks changed.

    **Source.** A. Pettitt, *A Non-Parametric Approach to the Change-Point Problem*, Applied
    Statistics 28, 1979.

    **Warm-up.** 8 samples.

    **Cost.** One sort of each window, n log n.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them.
    """
    return by_window(block, LEAST, _p_value)


def changepoint_size_over_time(block: Block) -> Folded:
    """By how much the level of a window changed at its most likely change-point.

    **Formula.** The median of the samples from the change-point on, less the median of those before
    it; the change-point is where `|U(k)|` of `changepoint_pvalue_over_time` is largest, the first
    place among equals. 0 for a constant.

    **Source.** Pettitt, 1979, as above.

    **Warm-up.** 8 samples.

    **Cost.** Three sorts of each window, n log n.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them. A size means
    something where the p-value is small.
    """
    return by_window(block, LEAST, _size)


def changepoint_time_over_time(block: Block) -> Folded:
    """When the level of a window changed: the first sample of the new one, in Unix seconds.

    **Formula.** As for `changepoint_size_over_time`; the time is that of sample k + 1.

    **Source.** Pettitt, 1979, as above.

    **Warm-up.** 8 samples.

    **Cost.** One sort of each window, n log n.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them; constants. A time
    means something where the p-value is small.
    """
    return by_window(block, LEAST, _time)


def ranks(few: Few) -> Float64Array:
    """The rank of each sample in its window, from 1, equal ones sharing the mean; 0 elsewhere."""
    exists = few.exists
    keyed = np.where(exists, few.values, np.inf)
    order = np.argsort(keyed, axis=1, kind="stable")
    ordered = np.take_along_axis(keyed, order, axis=1)
    places = np.arange(keyed.shape[1])
    begins = np.ones(keyed.shape, dtype=np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    ends = np.ones(keyed.shape, dtype=np.bool_)
    ends[:, :-1] = begins[:, 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    backwards = np.where(ends, places, places[-1])[:, ::-1]
    last = np.minimum.accumulate(backwards, axis=1)[:, ::-1]
    found = np.empty(keyed.shape)
    np.put_along_axis(found, order, (first + last) / 2 + 1, axis=1)
    found[~exists] = 0.0
    return found


def _split(few: Few) -> tuple[Float64Array, IndexArray]:
    """K and how many samples are before the change-point, [C]. All of it is exact."""
    number = few.counts.astype(np.float64)[:, None]
    before = np.arange(1, few.values.shape[1] + 1)
    uneven = np.abs(2 * np.cumsum(ranks(few), axis=1) - before * (number + 1))
    uneven[before >= few.counts[:, None]] = -1.0
    place = uneven.argmax(axis=1)
    return uneven[np.arange(place.size), place], place + 1


def _p_value(few: Few) -> Float64Array:
    most, _ = _split(few)
    number = few.counts.astype(np.float64)
    found: Float64Array = np.minimum(1.0, 2 * np.exp(-6 * most**2 / (number**3 + number**2)))
    return found


def _size(few: Few) -> Float64Array:
    most, before = _split(few)
    exists = few.exists
    early = np.arange(few.values.shape[1]) < before[:, None]
    found = medians(few.values, exists & ~early) - medians(few.values, exists & early)
    return few.unscaled(np.where(most > 0, found, 0.0))


def _time(few: Few) -> Float64Array:
    most, before = _split(few)
    since = few.times_s[np.arange(before.size), before]
    return np.where(most > 0, few.newest_ms / 1000 + since, np.nan)
