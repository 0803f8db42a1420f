"""Running folds between cuts, and windows as pairs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.summation import two_sum

if TYPE_CHECKING:
    from engine.promql.cuts import Layout, Step, UpperLayout
    from engine.promql.windows import Block
    from engine.series import Float64Array

    Pair: TypeAlias = tuple[Float64Array, Float64Array]


def sums(layout: Layout, spread: Float64Array, *, both: bool = False) -> Pair:
    """Compensated running sums of finite values, [2, places]: totals, and what they have lost.

    `both`: other values are folded backwards than forwards.
    """
    totals, carries = np.empty_like(spread), np.empty_like(spread)
    totals[:, : layout.first.stop] = carries[:, : layout.first.stop] = 0.0
    if layout.upper is not None:
        totals[:, layout.first], carries[:, layout.first] = _sums_beyond(
            layout, layout.upper, spread if both else spread[:1]
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


def window_extremes(block: Block, pick: np.ufunc) -> Float64Array:
    """The extreme of each window, [S, T]; `pick`: np.fmax or np.fmin. NaN if there is no number."""
    layout = block.layout
    folded = layout.spread(block.values, np.nan)
    if layout.upper is not None:
        folded[:, layout.first] = _extremes_beyond(layout, layout.upper, folded, pick)
    _run(pick, folded, layout.steps, folded)
    found = np.take(folded[1], layout.suffix)
    pick(found, np.take(folded[0], layout.prefix), out=found)
    return found


def _extremes_beyond(
    layout: Layout, upper: UpperLayout, spread: Float64Array, pick: np.ufunc
) -> Float64Array:
    """The extremes of all stretches between each and the cut, [2, stretches]."""
    whole = np.full(layout.first.stop - layout.first.start, np.nan)
    for step in layout.steps:
        more = spread[0, step.now]
        pick(whole[: more.size], more, out=whole[: more.size])
    folded = upper.spread(whole[None], np.nan)
    _run(pick, folded, upper.steps, folded)
    return upper.beyond(folded)
