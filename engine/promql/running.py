"""Running folds of the stretches between cuts, and windows as pairs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.summation import two_sum

if TYPE_CHECKING:
    from engine.promql.cuts import Layout
    from engine.promql.windows import Block
    from engine.series import Float64Array


def sums(layout: Layout, spread: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Compensated running sums of finite values, [2, places]: totals, and what they have lost."""
    totals, carries = np.empty_like(spread), np.empty_like(spread)
    start = slice(*layout.lines[0])
    totals[:, start] = spread[:, start]
    carries[:, start] = 0.0
    for before, now, steps in layout.blocks():
        for previous, current in steps:
            np.add(totals[:, previous], spread[:, current], out=totals[:, current])
        lost = _lost(totals[:, before], spread[:, now], totals[:, now])
        at = now.start
        for previous, current in steps:
            part = slice(current.start - at, current.stop - at)
            np.add(carries[:, previous], lost[:, part], out=carries[:, current])
    return totals, carries


def _lost(one: Float64Array, other: Float64Array, new: Float64Array) -> Float64Array:
    """What rounding lost in new = one + other, exactly (Knuth)."""
    part = new - one
    rest = new - part
    np.subtract(one, rest, out=rest)
    np.subtract(other, part, out=part)
    rest += part
    return rest


def window_sums(block: Block) -> tuple[Float64Array, Float64Array]:
    """The compensated sum of each window of finite values: a total and what it lost, [S, T]."""
    layout = block.layout
    totals, carries = sums(layout, layout.spread(block.values))
    before, beyond = layout.suffix, layout.prefix
    total, lost = two_sum(np.take(totals[1], before), np.take(totals[0], beyond))
    lost += np.take(carries[1], before)
    lost += np.take(carries[0], beyond)
    return total, lost


def window_extremes(block: Block, pick: np.ufunc) -> Float64Array:
    """The extreme of each window, [S, T]; `pick`: np.fmax or np.fmin. NaN if there is no number."""
    layout = block.layout
    folded = layout.spread(block.values, np.nan)
    for previous, current in layout.steps():
        pick(folded[:, previous], folded[:, current], out=folded[:, current])
    found = np.take(folded[1], layout.suffix)
    pick(found, np.take(folded[0], layout.prefix), out=found)
    return found
