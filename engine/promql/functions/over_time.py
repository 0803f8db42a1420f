"""The `*_over_time` family: folds of the samples in a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.cells import count, exact_mean, exact_sum, for_each, gathered, guarded
from engine.promql.moments import variances
from engine.promql.running import plain_sums, window_extremes, window_sums
from engine.promql.sliding_quantiles import sorted_quantiles, window_quantiles
from engine.promql.summation import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.cells import Gathered
    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.promql.windows import Block, Folded, Kernel
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Call


# Sums of larger values, and sums that are smaller than this share of their largest value, are
# added one by one in Prometheus' own order, since nothing but the order decides what they give.
LARGEST_SUMMED = 1e100
CANCELLED = 1e-14


def sum_over_time(block: Block) -> Folded:
    """Compensated sum."""
    return guarded(block, _sums, lambda some: exact_sum(some.values), LARGEST_SUMMED), block.filled


def avg_over_time(block: Block) -> Folded:
    """Compensated mean that does not overflow."""

    def means(calm: Block) -> Float64Array:
        found = _sums(calm)
        found /= calm.bounds.counts
        return found

    return guarded(block, means, exact_mean, LARGEST_SUMMED), block.filled


def _sums(block: Block) -> Float64Array:
    """Plain sums of what has one sign, where nothing cancels; else compensated ones."""
    values = block.values
    lowest, highest = float(values.min()), float(values.max())
    if lowest >= 0 or highest <= 0:
        return plain_sums(block)
    mixed = (count(block, values < 0) > 0) & (count(block, values > 0) > 0)
    return np.where(mixed, _compensated_sums(block, max(highest, -lowest)), plain_sums(block))


def _compensated_sums(block: Block, largest: float) -> Float64Array:
    found, lost = window_sums(block)
    found += lost
    # What is small beside the block's largest value may be small beside its own window's.
    least = CANCELLED * largest
    cells = np.flatnonzero((np.abs(found) < least) & (lost != 0) & block.filled)
    flat = found.reshape(-1)
    for some in gathered(block, cells, NEUTRAL):
        chosen = cells[some.cells]
        own = np.abs(some.values).max(axis=1) * CANCELLED
        kept = flat[chosen]
        flat[chosen] = np.where(np.abs(kept) < own, exact_sum(some.values), kept)
    return found


def stdvar_over_time(block: Block) -> Folded:
    """Population variance; 0 for a constant."""
    return variances(block), block.filled


def stddev_over_time(block: Block) -> Folded:
    """Population standard deviation."""
    deviation = variances(block)
    np.sqrt(deviation, out=deviation)
    return deviation, block.filled


def count_over_time(block: Block) -> Folded:
    """The number of samples."""
    return np.broadcast_to(block.bounds.counts, block.shape), block.filled


def present_over_time(block: Block) -> Folded:
    """1 where there is any sample."""
    return np.ones(block.shape), block.filled


def first_over_time(block: Block) -> Folded:
    """The oldest sample."""
    return block.oldest(), block.filled


def last_over_time(block: Block) -> Folded:
    """The newest sample."""
    return block.newest(), block.filled


def ts_of_first_over_time(block: Block) -> Folded:
    """When the oldest sample was taken, in seconds."""
    times = block.times_at(block.lo) / 1000
    return np.broadcast_to(times, block.shape), block.filled


def ts_of_last_over_time(block: Block) -> Folded:
    """When the newest sample was taken, in seconds."""
    times = block.times_at(block.hi - 1) / 1000
    return np.broadcast_to(times, block.shape), block.filled


def max_over_time(block: Block) -> Folded:
    """The largest number; NaN if there is none."""
    return window_extremes(block, np.fmax), block.filled


def min_over_time(block: Block) -> Folded:
    """The smallest number; NaN if there is none."""
    return window_extremes(block, np.fmin), block.filled


def _when(beats: Callable[[Float64Array, Float64Array], BoolArray]) -> Kernel:
    """The time of the value that beats all before it. Any number beats NaN."""

    def kernel(block: Block) -> Folded:
        best = block.oldest()
        times = np.broadcast_to(block.times_at(block.lo), block.shape)
        for _, index, exists in block.walk():
            value = block.at(index)
            wins = (beats(value, best) | np.isnan(best)) & exists
            best = np.where(wins, value, best)
            times = np.where(wins, block.times_at(index), times)
        return times / 1000, block.filled

    return kernel


# The time is that of the newest among equals, hence "or equal".
ts_of_max_over_time = _when(lambda value, held: value >= held)
ts_of_min_over_time = _when(lambda value, held: value <= held)


def quantile_over_time(block: Block) -> Folded:
    """The φ-quantile (param 0), linear between ranks; NaN sorts first."""
    return window_quantiles(block, block.params[0]), block.filled


def mad_over_time(block: Block) -> Folded:
    """The median absolute deviation from the median; NaN if any sample is."""
    medians = window_quantiles(block, np.full(block.shape[1], 0.5)).reshape(-1)
    cells = np.flatnonzero(block.filled)
    found = np.zeros(block.shape)

    def away(windows: Gathered) -> Float64Array:
        middle = medians[cells[windows.cells]]
        distance = np.abs(windows.values - middle[:, None])
        spoilt = np.isnan(distance).any(axis=1)
        counts = np.full(middle.size, float(distance.shape[1]))
        if windows.exists is not None:
            distance[~windows.exists] = np.inf
            counts = windows.exists.sum(axis=1).astype(np.float64)
        return np.where(spoilt, np.nan, sorted_quantiles(0.5, distance, counts))

    found.reshape(-1)[cells] = for_each(block, cells, away, 0.0)
    return found, block.filled


def quantile_in_range(
    context: Context,
    call: Call,
    frame: Frame,
    scalars: tuple[Float64Array, ...],
) -> None:
    """Warn of a φ outside [0, 1]."""
    context.notes.check_quantiles(scalars[0], frame.present, call.args[0].span)
