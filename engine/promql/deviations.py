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

from engine.promql.places import Cells, Folds, at_steps, by_place
from engine.promql.running import fold_plainly

if TYPE_CHECKING:
    from engine.promql.bounds import IndexArray, Weights
    from engine.promql.grid import Grid
    from engine.promql.windows import Block
    from engine.series import Float64Array


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
        # Pivots first: times are large, and the differences small.
        apart = (self.pivots.beyond - self.pivots.before) + self.away.beyond
        apart -= self.away.before
        return apart

    @cached_property
    def away(self) -> Halves:
        """How far the mean of each half is from its pivot."""
        sums, weights = self.sums, self.weights
        return Halves(sums.before / weights.before, sums.beyond / weights.beyond)

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
    products = one.squares if one is other else one.products(other)
    found = one.sums.before * other.away.before
    np.subtract(products.before, found, out=found)
    beyond = one.sums.beyond * other.away.beyond
    np.subtract(products.beyond, beyond, out=beyond)
    found += beyond
    apart = one.apart * other.apart
    apart *= one.weights.both
    found += apart
    return found
