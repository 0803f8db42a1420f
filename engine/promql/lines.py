"""Least-squares lines through windows: their slopes, and where they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.cells import exact_sum, gathered
from engine.promql.deviations import deviations, spread_about
from engine.promql.moments import scaled

if TYPE_CHECKING:
    from engine.promql.bounds import Bounds, IndexArray
    from engine.promql.deviations import Deviations
    from engine.promql.windows import Block
    from engine.series import Float64Array, Int64Array

# A covariance this much smaller than what it is the sum of is rounding's dust, or close to it.
DUST = 2.0**-36
# A line's value this much smaller than what it is the sum of may be 0.
CROSSED = 2.0**-46


def slopes(block: Block) -> Float64Array:
    """Slope per second of each window's least-squares line, [S, T]; of a constant exactly 0."""

    def plain(calm: Block) -> Float64Array:
        times = deviations(calm, _times(calm.bounds))
        slope = _covariances(deviations(calm, calm.values), times)
        slope /= _seconds_squared(times)
        return slope

    return scaled(block, plain, power=1)


def lines_at(block: Block, at_ms: Int64Array, ahead: Float64Array) -> Float64Array:
    """Each window's least-squares line `ahead` seconds after a time, both [T]: [S, T]."""

    def plain(calm: Block) -> Float64Array:
        times, values = deviations(calm, _times(calm.bounds)), deviations(calm, calm.values)
        slope = _covariances(values, times)
        slope /= _seconds_squared(times)
        away = (at_ms - times.at_steps(times.means)) / 1000 + ahead
        slope *= away
        means = values.at_steps(values.means)
        size = (np.abs(slope) + np.abs(means)) * CROSSED
        slope += means
        careful = np.flatnonzero((np.abs(slope) <= size) & (slope != 0) & calm.filled)
        if careful.size:
            slope.reshape(-1)[careful] = _crossings(calm, times, careful, at_ms, ahead)
        return slope

    return scaled(block, plain, power=1)


def _covariances(values: Deviations, times: Deviations) -> Float64Array:
    """`spread_about`, [S, T], where it is next to nothing without rounding's dust.

    Whole numbers that rise as much as they fall have a slope of exactly 0, whatever the cut.
    """
    products = values.products(times)
    found, size = products.before.copy(), np.abs(products.before)
    part = np.multiply(values.sums.before, times.away.before)
    found -= part
    size += np.abs(part, out=part)
    found += products.beyond
    size += np.abs(products.beyond, out=part)
    np.multiply(values.sums.beyond, times.away.beyond, out=part)
    found -= part
    size += np.abs(part, out=part)
    np.multiply(values.apart, times.apart, out=part)
    part *= values.weights.both
    found += part
    size += np.abs(part, out=part)
    size *= DUST
    dusty = np.abs(found, out=part) <= size
    found = np.ascontiguousarray(values.at_steps(found))
    if dusty.any():
        careful = np.flatnonzero(values.at_steps(dusty) & (found != 0) & values.block.filled)
        found.reshape(-1)[careful] = _exact_covariances(values.block, times, careful)
    return found


def _exact_covariances(block: Block, times: Deviations, cells: IndexArray) -> Float64Array:
    """Those of these windows, by compensated sums; of whole numbers not too large exactly."""
    found = np.empty(cells.size)
    whole = block.with_values(np.broadcast_to(times.values, block.values.shape))
    pairs = zip(gathered(block, cells, 0.0), gathered(whole, cells, 0.0), strict=True)
    for some, when in pairs:
        exists = True if some.exists is None else some.exists
        number = np.broadcast_to(block.bounds.counts, block.shape).reshape(-1)[cells[some.cells]]
        risen = np.where(exists, some.values - some.values[:, :1], 0.0)
        passed = np.where(exists, when.values - when.values[:, :1], 0.0)
        # From about their mean, a whole number: the product of sums stays small.
        passed -= np.where(exists, np.floor(exact_sum(passed) / number)[:, None], 0.0)
        product = exact_sum(risen) * exact_sum(passed) / number
        found[some.cells] = exact_sum(risen * passed) - product
    return found


def _crossings(
    block: Block, times: Deviations, cells: IndexArray, at_ms: Int64Array, ahead: Float64Array
) -> Float64Array:
    """Lines of these windows step by step as in Prometheus: what is exactly 0 there is so here.

    Source: promql/functions.go, linearRegression.
    """
    found = np.empty(cells.size)
    whole = block.with_values(np.broadcast_to(times.values, block.values.shape))
    pairs = zip(gathered(block, cells, 0.0), gathered(whole, cells, 0.0), strict=True)
    for some, when in pairs:
        exists = True if some.exists is None else some.exists
        number = np.broadcast_to(block.bounds.counts, block.shape).reshape(-1)[cells[some.cells]]
        x = np.where(exists, (when.values - at_ms[some.columns, None]) / 1000, 0.0)
        sum_x, sum_y = exact_sum(x), exact_sum(some.values)
        covariance = exact_sum(x * some.values) - sum_x * sum_y / number
        slope = covariance / (exact_sum(x * x) - sum_x * sum_x / number)
        found[some.cells] = slope * ahead[some.columns] + (sum_y / number - slope * sum_x / number)
    return found


def _times(bounds: Bounds) -> Float64Array:
    """Milliseconds, [1, N] if shared, else [S, N]."""
    times: Float64Array = np.atleast_2d(bounds.timestamps_ms).astype(np.float64)
    return times


def _seconds_squared(times: Deviations) -> Float64Array:
    """What a covariance with milliseconds is divided by for a slope per second."""
    return times.at_steps(spread_about(times, times)) / 1000
