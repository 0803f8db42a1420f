"""Windows one by one, for statistics that no running fold gives.

A statistic is worked out for windows with enough samples, none of them NaN or infinite; the others
have no result. Everything is added up in the order of the samples, so that no bit depends on which
windows are worked on together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.cells import count, gathered
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.promql.bounds import IndexArray
    from engine.promql.windows import Block, Folded
    from engine.series import BoolArray, Float64Array

# Squares and products of values between these are neither infinite nor 0.
LEAST_PLAIN, LARGEST_PLAIN = 1e-100, 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """C windows with their samples side by side, oldest first.

    `values`: float64[C, W], scaled: the samples are values · 2^exponent, and `exponent`, [C], is 0
    but for windows of huge or tiny samples. `times_s`: float64[C, W], seconds since the newest
    sample, at most 0. `counts`: intp[C], samples in each window; beyond them values and times
    are 0. `steps`: intp[C], the place of each window on the axis.
    """

    values: Float64Array
    times_s: Float64Array
    counts: IndexArray
    exponent: IndexArray
    newest_ms: Float64Array
    steps: IndexArray

    @property
    def exists(self) -> BoolArray:
        """Which of [C, W] are samples."""
        inside: BoolArray = np.arange(self.values.shape[1]) < self.counts[:, None]
        return inside

    @property
    def newest(self) -> Float64Array:
        """The newest sample of each window, scaled."""
        return self.values[np.arange(self.counts.size), self.counts - 1]

    def unscaled(self, found: Float64Array) -> Float64Array:
        """What is in the unit of the scaled values, in that of the samples."""
        return np.ldexp(found, self.exponent) if self.exponent.any() else found


Statistic: TypeAlias = "Callable[[Few], Float64Array]"


def usable(block: Block, least: int) -> BoolArray:
    """Windows with at least so many samples, all of them finite: [S, T]."""
    finite = np.isfinite(block.values)
    enough = block.where(block.widths >= least)
    if finite.all():
        return enough
    found: BoolArray = enough & (count(block, ~finite) == 0)
    return found


def by_window(block: Block, least: int, statistic: Statistic) -> Folded:
    """A statistic of each usable window; NaN means that it is not defined there."""
    present = np.array(usable(block, least), order="C")
    cells = np.flatnonzero(present)
    found = np.zeros(block.shape)
    flat, mask = found.reshape(-1), present.reshape(-1)
    for some, few in windows(block, cells):
        flat[cells[some]] = statistic(few)
    mask[cells] = ~np.isnan(flat[cells])
    return found, present


def windows(block: Block, cells: IndexArray) -> Iterator[tuple[slice, Few]]:
    """The windows with these flat numbers in [S, T], some at a time."""
    known = np.broadcast_to(block.bounds.timestamps_ms.astype(np.float64), block.values.shape)
    times = block.with_values(np.ascontiguousarray(known))
    for ours, when in zip(gathered(block, cells, 0.0), gathered(times, cells, 0.0), strict=True):
        width = ours.values.shape[1]
        counts = np.full(ours.values.shape[0], width, dtype=np.intp)
        if ours.exists is not None:
            counts = ours.exists.sum(axis=1)
        newest = when.values[np.arange(counts.size), counts - 1]
        times_s = (when.values - newest[:, None]) / 1000
        if ours.exists is not None:
            times_s[~ours.exists] = 0.0
        values, exponent = _scaled(ours.values)
        yield ours.cells, Few(values, times_s, counts, exponent, newest, ours.columns)


def _scaled(values: Float64Array) -> tuple[Float64Array, IndexArray]:
    largest = np.abs(values).max(axis=1)
    exponent = np.frexp(largest)[1].astype(np.intp)
    plain = (largest == 0) | ((largest >= LEAST_PLAIN) & (largest <= LARGEST_PLAIN))
    exponent[plain] = 0
    if exponent.any():
        values = np.ldexp(values, -exponent[:, None])
    return values, exponent


def in_order(values: Float64Array) -> Float64Array:
    """The sums of rows, [C, W], added from left to right whatever the width."""
    return np.cumsum(values, axis=1)[:, -1]


def medians(values: Float64Array, exists: BoolArray) -> Float64Array:
    """The median of what exists in each row, [C, W]; NaN for an empty row."""
    ordered = np.where(exists, values, np.inf)
    ordered.sort(axis=1)
    return middle_of_sorted(ordered, exists.sum(axis=1))


def middle_of_sorted(ordered: Float64Array, counts: IndexArray) -> Float64Array:
    """The median of the first `counts` of each sorted row; NaN where that is none."""
    rows = np.arange(counts.size)
    low = ordered[rows, np.maximum(counts - 1, 0) // 2]
    high = ordered[rows, np.minimum(counts // 2, ordered.shape[1] - 1)]
    return np.where(counts > 0, low / 2 + high / 2, np.nan)


def scores(away: Float64Array, spread: Float64Array) -> Float64Array:
    """How many spreads away; 0 for what is not away at all, be the spread 0 or not."""
    with np.errstate(all="ignore"):
        return np.where(away == 0, 0.0, away / spread)
