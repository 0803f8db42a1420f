"""Means, variances and covariances of windows, without cancellation across windows.

Values are taken from a pivot inside their own half of the window: the last sample before the
window's cut, or the first one after it. A constant then has deviations of exactly 0. The halves
are combined by the formula of Chan, Golub and LeVeque.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.cells import count, exact_sum, gathered
from engine.promql.places import Cells, Folds, at_steps, by_place
from engine.promql.running import fold_plainly
from engine.promql.summation import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.bounds import Bounds, IndexArray, Weights
    from engine.promql.grid import Grid
    from engine.promql.windows import Block
    from engine.series import Float64Array, Int64Array

# Squares and products of values up to here stay finite; larger ones are scaled by 2^SCALE.
LARGEST_SQUARED = 1e100
SCALE = -700

# A variance this much smaller than the squares that it is the difference of is worked out anew.
CANCELLED = 1 / 128
# A covariance this much smaller than what it is the sum of is rounding's dust, or close to it.
DUST = 2.0**-36
# A line's value this much smaller than what it is the sum of may be 0.
CROSSED = 2.0**-46


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """A sum of each window's two halves, [S, T] each, 0 for a half that is empty."""

    before: Float64Array
    beyond: Float64Array


@dataclass(eq=False)
class Deviations:
    """Values, [S, N], as differences from the pivots of their stretch.

    `step`: from a window's pivot before the cut to the one beyond it.
    """

    block: Block
    values: Float64Array

    @cached_property
    def forward(self) -> Float64Array:
        """From the first sample after the cut before."""
        return self.values - self._pick(self.block.bounds.cuts.first)

    @cached_property
    def backward(self) -> Float64Array:
        """From the last sample before the cut after."""
        return self.values - self._pick(self.block.bounds.cuts.last)

    @cached_property
    def sums(self) -> Halves:
        """Of the differences."""
        return self.halves(self.forward, self.backward)

    @cached_property
    def squares(self) -> Halves:
        """Of their squares."""
        return self.products(self)

    def products(self, other: Deviations) -> Halves:
        """Of their products with others'."""
        forward, backward = self.forward * other.forward, self.backward * other.backward
        return self.halves(forward, backward)

    def halves(self, forward: Float64Array, backward: Float64Array) -> Halves:
        """Sums of what is given for each sample, from one pivot and from the other."""
        layout = self.block.bounds.layout(forward.shape[0])
        spread = layout.spread(forward, 0.0, backward)
        totals = fold_plainly(layout, spread, np.add, 0.0, both=True)
        return Halves(np.take(totals[1], layout.suffix), np.take(totals[0], layout.prefix))

    @property
    def weights(self) -> Weights:
        """The numbers of samples in each half."""
        return self.block.bounds.weights

    @property
    def counts(self) -> Float64Array:
        """The numbers of samples."""
        return self.block.bounds.counts

    def at_steps(self, found: Cells) -> Cells:
        """What has been found for each window, as [S, T]."""
        return found

    @cached_property
    def pivots(self) -> Halves:
        """The values that the differences are taken from; some value for an empty half."""
        return Halves(*(self._pick(place) for place in self.block.bounds.pivots))

    @cached_property
    def apart(self) -> Float64Array:
        """How far the mean beyond the cut is from the one before it."""
        weights = self.weights
        beyond = self.sums.beyond / weights.beyond
        beyond -= self.sums.before / weights.before
        beyond += self.pivots.beyond - self.pivots.before
        return beyond

    @cached_property
    def means(self) -> Float64Array:
        """The mean of each window."""
        weights, pivots = self.weights, self.pivots
        base = np.where(weights.split, pivots.before, pivots.beyond)
        away = self.sums.before + self.sums.beyond + weights.number * (pivots.beyond - base)
        return base + away / self.counts

    def _pick(self, place: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Float64Array:
        if place.ndim == 2:
            return np.take(self.values, place)
        return np.take(self.values, place, axis=1)


@dataclass(eq=False)
class SlotDeviations(Deviations):
    """The same for samples in slots. Everything is by place, see engine/promql/places.py."""

    grid: Grid

    @cached_property
    def _spread(self) -> Float64Array:
        return by_place(self.grid.frame, self.grid.spread(self.values))

    @cached_property
    def _pivots(self) -> Halves:
        """The last and the first sample between two cuts, for each stretch: [S, 1 + stretches]."""
        edges, parts = self.grid.upto[:, :: self.grid.frame.width], self.grid.frame.parts
        last = np.maximum(edges[:, 1:] - 1, 0)
        first = np.minimum(edges[:, :-1], self.values.shape[1] - 1)
        return Halves(self._columns(last, parts), self._columns(first, parts))

    def _columns(self, numbers: IndexArray, parts: int) -> Float64Array:
        found = np.zeros((self.values.shape[0], 1 + self.grid.frame.stretches))
        picked = np.take_along_axis(self.values, numbers, axis=1)
        found[:, 1:] = np.repeat(picked, parts, axis=1)
        return found

    @cached_property
    def forward(self) -> Float64Array:
        """See `Deviations`. 0 where there is no sample."""
        return self._away(self._pivots.beyond)

    @cached_property
    def backward(self) -> Float64Array:
        """See `Deviations`."""
        return self._away(self._pivots.before)

    def _away(self, pivots: Float64Array) -> Float64Array:
        away = self._spread - pivots
        for rows, places, columns in self.grid.holes:
            away[:, rows].transpose(0, 2, 1)[places, columns] = 0.0
        return away

    def halves(self, forward: Float64Array, backward: Float64Array) -> Halves:
        """See `Deviations`."""
        found = Folds.of(self.grid, forward, backward)
        return Halves(found.before, found.beyond)

    @cached_property
    def pivots(self) -> Halves:
        """See `Deviations`."""
        frame, pivots = self.grid.frame, self._pivots
        shape = (frame.short, *pivots.before[:, frame.parts :].shape)
        before = np.empty(shape)
        before[...] = pivots.before[:, : shape[-1]]
        # A window that ends at its cut has all of its samples before it.
        before[-1, :, :: frame.parts] = pivots.before[:, frame.parts :: frame.parts]
        return Halves(before, pivots.beyond[None, :, frame.parts :])

    @property
    def weights(self) -> Weights:
        """See `Deviations`."""
        return self.block.bounds.weights_by_place

    @property
    def counts(self) -> Float64Array:
        """See `Deviations`."""
        return self.weights.counts

    def at_steps(self, found: Cells) -> Cells:
        """See `Deviations`."""
        return at_steps(self.grid.frame, found)


def deviations(block: Block, values: Float64Array) -> Deviations:
    """The deviations of values, [1, N] or [S, N], in a block's windows."""
    grid = block.bounds.grid
    return Deviations(block, values) if grid is None else SlotDeviations(block, values, grid)


def spread_about(one: Deviations, other: Deviations) -> Float64Array:
    """Each window's sum of the products of two deviations from their means."""
    weights = one.weights
    products = one.squares if one is other else one.products(other)
    found = products.before - one.sums.before * other.sums.before / weights.before
    found += products.beyond - one.sums.beyond * other.sums.beyond / weights.beyond
    found += one.apart * other.apart * weights.both
    return found


def variances(block: Block) -> Float64Array:
    """Population variances, [S, T]; NaN for a window with NaN or an infinity in it."""
    return _scaled(block, _variances, power=2)


def _variances(block: Block) -> Float64Array:
    values = deviations(block, block.values)
    squares = spread_about(values, values)
    total = values.squares.before + values.squares.beyond
    total *= CANCELLED
    cancelled = squares < total
    squares = values.at_steps(squares)
    careful = np.empty(0, dtype=np.intp)
    if cancelled.any():
        squares = np.ascontiguousarray(squares)
        careful = np.flatnonzero(values.at_steps(cancelled) & block.filled)
    for some in gathered(block, careful, 0.0):
        exists = True if some.exists is None else some.exists
        number = np.broadcast_to(block.bounds.counts, block.shape).reshape(-1)[careful[some.cells]]
        mean = exact_sum(some.values) / number
        away = np.where(exists, some.values - mean[:, None], 0.0)
        rest = exact_sum(away)
        squares.reshape(-1)[careful[some.cells]] = exact_sum(away * away) - rest * rest / number
    np.maximum(squares, 0.0, out=squares)
    squares /= block.bounds.counts
    return squares


def slopes(block: Block) -> Float64Array:
    """Slope per second of each window's least-squares line, [S, T]; of a constant exactly 0."""

    def plain(calm: Block) -> Float64Array:
        times = Deviations(calm, _times(calm.bounds))
        return _covariances(Deviations(calm, calm.values), times) / _seconds_squared(times)

    return _scaled(block, plain, power=1)


def lines_at(block: Block, at_ms: Int64Array, ahead: Float64Array) -> Float64Array:
    """Each window's least-squares line `ahead` seconds after a time, both [T]: [S, T]."""

    def plain(calm: Block) -> Float64Array:
        times, values = Deviations(calm, _times(calm.bounds)), Deviations(calm, calm.values)
        slope = _covariances(values, times) / _seconds_squared(times)
        away = (at_ms - times.means) / 1000 + ahead
        slope *= away
        means = values.means
        size = (np.abs(slope) + np.abs(means)) * CROSSED
        slope += means
        careful = np.flatnonzero((np.abs(slope) <= size) & (slope != 0) & calm.filled)
        if careful.size:
            slope.reshape(-1)[careful] = _crossings(calm, times, careful, at_ms, ahead)
        return slope

    return _scaled(block, plain, power=1)


def _covariances(values: Deviations, times: Deviations) -> Float64Array:
    """`spread_about`, [S, T], where it is next to nothing without rounding's dust.

    Whole numbers that rise as much as they fall have a slope of exactly 0, whatever the cut.
    """
    weights, products = values.block.bounds.weights, values.products(times)
    found = products.before.copy()
    size = np.abs(found)
    for part in (
        values.sums.before * times.sums.before / -weights.before,
        products.beyond.copy(),
        values.sums.beyond * times.sums.beyond / -weights.beyond,
        values.apart * times.apart * weights.both,
    ):
        found += part
        size += np.abs(part, out=part)
    size *= DUST
    careful = np.flatnonzero((np.abs(found) <= size) & (found != 0) & values.block.filled)
    if careful.size:
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
    return spread_about(times, times) / 1000


def _scaled(block: Block, plain: Callable[[Block], Float64Array], *, power: int) -> Float64Array:
    """Fold windows of finite values of any size: `plain` sees none above LARGEST_SQUARED.

    What is folded grows with the given power of the values.
    """
    values = block.values
    if is_plain(values, LARGEST_SQUARED):
        return plain(block)
    finite = np.isfinite(values)
    calm = np.where(finite, values, 0.0)
    huge = np.abs(calm) > LARGEST_SQUARED
    found = plain(block.with_values(np.where(huge, 0.0, calm)))
    if huge.any():
        scaled = block.with_values(np.ldexp(calm, SCALE))
        large = np.ldexp(plain(scaled), -SCALE * power)
        found = np.where(count(block, huge) > 0, large, found)
    if not finite.all():
        found[count(block, ~finite) > 0] = np.nan
    return found
