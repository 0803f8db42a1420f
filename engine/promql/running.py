"""Running folds between cuts, and windows as pairs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.places import Folds, at_steps, by_place
from engine.promql.summation import two_sum

if TYPE_CHECKING:
    from engine.promql.cuts import Layout, Step, UpperLayout
    from engine.promql.windows import Block
    from engine.series import Float64Array

    Pair: TypeAlias = tuple[Float64Array, Float64Array]


def sums(layout: Layout, spread: Float64Array) -> Pair:
    """Compensated running sums of finite values, [2, places]: totals, and what they have lost."""
    totals, carries = np.empty_like(spread), np.empty_like(spread)
    totals[:, : layout.first.stop] = carries[:, : layout.first.stop] = 0.0
    if layout.upper is not None:
        totals[:, layout.first], carries[:, layout.first] = _sums_beyond(
            layout, layout.upper, spread[:1]
        )
    _run_sums(layout.runs, spread, totals, carries)
    return totals, carries


def _run_sums(
    runs: list[tuple[Step, list[Step]]],
    spread: Float64Array,
    totals: Float64Array,
    carries: Float64Array,
    owed: Float64Array | None = None,
) -> None:
    """Go on with sums from position 0. `owed`: what the values themselves have lost before."""
    for whole, steps in runs:
        for step in steps:
            np.add(totals[:, step.before], spread[:, step.now], out=totals[:, step.now])
        lost = _lost(totals[:, whole.before], spread[:, whole.now], totals[:, whole.now])
        if owed is not None:
            lost += owed[:, whole.now]
        _run(np.add, carries, steps, lost, whole.now.start)


def _lost(one: Float64Array, other: Float64Array, new: Float64Array) -> Float64Array:
    """What rounding lost in new = one + other, exactly (Knuth)."""
    part = new - one
    rest = new - part
    np.subtract(one, rest, out=rest)
    np.subtract(other, part, out=part)
    rest += part
    return rest


def _run(
    pick: np.ufunc, folded: Float64Array, steps: list[Step], values: Float64Array, at: int = 0
) -> None:
    """Fold values, which begin at place `at`, into what has been folded before them."""
    for step in steps:
        part = values[:, step.now.start - at : step.now.stop - at]
        pick(folded[:, step.before], part, out=folded[:, step.now])


def _sums_beyond(layout: Layout, upper: UpperLayout, spread: Float64Array) -> Pair:
    """The compensated sums of all stretches between each and the cut, [2, stretches]."""
    totals, lost = np.zeros((2, *spread.shape))
    _run_sums(layout.runs, spread, totals, lost)
    whole = upper.spread(totals[:, upper.whole], 0.0)
    owed = upper.spread(lost[:, upper.whole], 0.0)
    totals, carries = np.zeros((2, *whole.shape))
    _run_sums(upper.runs, whole, totals, carries, owed)
    return upper.beyond(totals), upper.beyond(carries)


def window_pair(layout: Layout, folded: Pair) -> Pair:
    """Each window's compensated sum, of running ones: a total and what it lost, [S, T]."""
    (totals, carries), before, beyond = folded, layout.suffix, layout.prefix
    total, lost = two_sum(np.take(totals[1], before), np.take(totals[0], beyond))
    lost += np.take(carries[1], before)
    lost += np.take(carries[0], beyond)
    return total, lost


def window_sums(block: Block) -> Pair:
    """The compensated sum of each window of finite values: a total and what it lost, [S, T]."""
    layout = block.layout
    return window_pair(layout, sums(layout, layout.spread(block.values)))


def plain_sums(block: Block) -> Float64Array:
    """The sum of each window of values of one sign, [S, T]."""
    grid = block.bounds.grid
    if grid is not None:
        places = by_place(grid.frame, grid.spread(block.values))
        folds = Folds.of(grid, places, places)
        return at_steps(grid.frame, folds.before + folds.beyond)
    layout = block.layout
    folded = fold_plainly(layout, layout.spread(block.values), np.add, 0.0)
    found = np.take(folded[1], layout.suffix)
    found += np.take(folded[0], layout.prefix)
    return found


def window_extremes(block: Block, pick: np.ufunc) -> Float64Array:
    """The extreme of each window, [S, T]; `pick`: np.fmax or np.fmin. NaN if there is no number."""
    grid = block.bounds.grid
    if grid is not None:
        found = grid.extremes(block.values, pick)
    else:
        layout = block.layout
        folded = fold_plainly(layout, layout.spread(block.values, np.nan), pick, np.nan)
        found = np.take(folded[1], layout.suffix)
        pick(found, np.take(folded[0], layout.prefix), out=found)
    _sign_zeros(block, found)
    return found


def _sign_zeros(block: Block, found: Float64Array) -> None:
    """Give an extreme of 0 the sign of the window's first zero, since 0 and -0 are equal."""
    values = block.values
    zeros = values == 0
    if not (zeros & np.signbit(values)).any():
        return
    size = values.shape[1]
    following = np.where(zeros, np.arange(size), size - 1)[:, ::-1]
    np.minimum.accumulate(following, axis=1, out=following)
    rows, columns = np.nonzero(found == 0)
    oldest = block.lo[columns] if block.bounds.shared else block.lo[rows, columns]
    first = following[:, ::-1][rows, np.minimum(oldest, size - 1)]
    found[rows, columns] = values[rows, first]


def fold_plainly(
    layout: Layout, spread: Float64Array, pick: np.ufunc, neutral: float, *, both: bool = False
) -> Float64Array:
    """Running folds by one operation, in place.

    `both`: other values are folded backwards than forwards.
    """
    if layout.upper is not None:
        some = spread if both else spread[:1]
        spread[:, layout.first] = _beyond(layout, layout.upper, some, pick, neutral)
    _run(pick, spread, layout.steps, spread)
    return spread


def _beyond(
    layout: Layout, upper: UpperLayout, spread: Float64Array, pick: np.ufunc, neutral: float
) -> Float64Array:
    """The folds of all stretches between each and the cut, [2, stretches]."""
    whole = np.full((spread.shape[0], layout.first.stop - layout.first.start), neutral)
    for step in layout.steps:
        more = spread[:, step.now]
        some = whole[:, : more.shape[1]]
        pick(some, more, out=some)
    folded = upper.spread(whole, neutral)
    _run(pick, folded, upper.steps, folded)
    return upper.beyond(folded)
