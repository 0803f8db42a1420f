"""Single windows, gathered: for what no running fold gives, and for the few that need care."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.summation import LARGEST_PLAIN, NEUTRAL, Mean, Sum, accumulated, is_plain
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.promql.bounds import IndexArray
    from engine.promql.windows import Block
    from engine.series import BoolArray, Float64Array

# Samples of all windows gathered at once: 2 MiB of float64.
GATHERED = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """C windows. `values`: [C, W]; `exists`: which are samples, None: all; `columns`: their steps.

    Where there is no sample the value is `values`' fill.
    """

    cells: slice
    columns: IndexArray
    values: Float64Array
    exists: BoolArray | None


def gathered(block: Block, cells: IndexArray, fill: float) -> Iterator[Gathered]:
    """The windows with these flat numbers in [S, T], some at a time."""
    steps, size = block.times_ms.size, block.values.shape[1]
    rows, columns = np.divmod(cells, steps)
    of_step = columns if block.bounds.shared else cells
    oldest, widths = np.take(block.lo, of_step), np.take(block.widths, of_step)
    oldest += rows * size
    offsets = np.arange(int(widths.max(initial=0)))
    at_once = max(1, GATHERED // max(1, offsets.size))
    flat = block.values.ravel()
    for start in range(0, cells.size, at_once):
        some = slice(start, start + at_once)
        width = int(widths[some].max(initial=0))
        index = oldest[some, None] + offsets[:width]
        exists: BoolArray | None = None
        if int(widths[some].min()) < width:
            exists = offsets[:width] < widths[some, None]
            np.minimum(index, flat.size - 1, out=index)
        values = np.take(flat, index)
        if exists is not None:
            values[~exists] = fill
        yield Gathered(some, columns[some], values, exists)


def for_each(
    block: Block, cells: IndexArray, function: Callable[[Gathered], Float64Array], fill: float
) -> Float64Array:
    """What a function of gathered windows gives for these, one value each."""
    found = np.empty(cells.size)
    for some in gathered(block, cells, fill):
        found[some.cells] = function(some)
    return found


def exact_sum(values: Float64Array) -> Float64Array:
    """Compensated sums of windows, [C, W], oldest first, of whatever there is."""
    if values.size and is_plain(values):
        totals, carries = accumulated(np.ascontiguousarray(values.T))
        return totals + carries
    total = Sum.zero((values.shape[0],))
    for one in values.T:
        total.add(one, slice(None))
    return np.where(np.isinf(total.total), total.total, total.result())


def exact_mean(windows: Gathered) -> Float64Array:
    """Means whose sum may overflow on the way."""
    mean = Mean.of(windows.values[:, 0])
    for number, values in enumerate(windows.values.T[1:], 1):
        if windows.exists is None:
            mean.add(values, slice(None))
        else:
            columns = np.flatnonzero(windows.exists[:, number])
            mean.add(values[columns], columns)
    return mean.result()


def count(block: Block, flags: BoolArray) -> Float64Array:
    """How many of the flagged samples, [S, N], each window holds: [S, T]."""
    upto = np.cumsum(flags, axis=1, dtype=np.float64)
    found = block.with_values(upto).newest()
    upto -= flags
    found -= block.with_values(upto).oldest()
    found *= block.filled
    return found


def guarded(
    block: Block,
    plain: Callable[[Block], Float64Array],
    exact: Callable[[Gathered], Float64Array],
    largest: float = LARGEST_PLAIN,
) -> Float64Array:
    """Fold windows of values of any kind; what is infinite, NaN or huge affects its own only.

    `plain` folds all windows of finite values up to `largest`. NaN in a window, or both
    infinities, give NaN, one infinity gives itself. `exact` folds windows with larger values.
    """
    values = block.values
    if is_plain(values, largest):
        return plain(block)
    finite = np.isfinite(values)
    huge = np.abs(values) > largest
    huge &= finite
    found = plain(block.with_values(np.where(finite & ~huge, values, 0.0)))
    above, below = count(block, values == np.inf) > 0, count(block, values == -np.inf) > 0
    neither = (count(block, np.isnan(values)) > 0) | (above & below)
    found[above] = np.inf
    found[below] = -np.inf
    found[neither] = np.nan
    careful = np.flatnonzero((count(block, huge) > 0) & ~above & ~below & ~neither)
    if careful.size:
        found = np.ascontiguousarray(found)
        found.reshape(-1)[careful] = for_each(block, careful, exact, NEUTRAL)
    return found
