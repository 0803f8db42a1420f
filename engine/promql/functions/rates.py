"""rate, increase, delta and their kin: how fast something changes within a window."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME
from engine.promql.remembered import REMEMBERED

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.bounds import IndexArray
    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.promql.windows import Block, Folded
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Call

COUNTER_SUFFIXES = ("_total", "_sum", "_count", "_bucket")


def rate(block: Block) -> Folded:
    """Increase per second, with resets corrected and the ends extrapolated."""
    return _extrapolated(block, counter=True, per_second=True)


def increase(block: Block) -> Folded:
    """Increase over the window, with resets corrected and the ends extrapolated."""
    return _extrapolated(block, counter=True, per_second=False)


def delta(block: Block) -> Folded:
    """Last less first, with the ends extrapolated."""
    return _extrapolated(block, counter=False, per_second=False)


def _extrapolated(block: Block, *, counter: bool, per_second: bool) -> Folded:
    """What Prometheus calls extrapolatedRate (promql/functions.go).

    The sampled increase is stretched to the window's edges where a sample is as near as 1.1 times
    the average spacing, else by half a spacing; a counter that rose is not stretched to before
    the time at which it would have been 0. Fewer than two samples give nothing.
    """
    first = block.oldest()
    result = block.newest()
    result -= first
    reach = block.bounds.reach
    before = reach.to_start
    if counter:
        _add_resets(block, result)
        to_zero = first
        to_zero /= result
        to_zero *= reach.sampled
        if block.values.size and block.values.min() >= 0:
            # Then there is no fall, and where there is no rise, to_zero is infinite or NaN.
            before = np.fmin(to_zero, reach.to_start, out=to_zero)
        else:
            cut = (result > 0) & (block.oldest() >= 0) & (to_zero < reach.to_start)
            before = np.where(cut, to_zero, reach.to_start)
    factor = np.add(reach.sampled, before, out=before if counter else None)
    factor += reach.to_end
    factor /= reach.sampled
    if per_second:
        factor /= block.range_ms / 1000
    result *= factor
    return result, block.several


# Rows that are searched one by one; more are searched as one.
FEW_ROWS = 64

# Entries of the table [reset, window that holds it] at once.
RESETS_AT_ONCE = 2**18


def _add_resets(block: Block, result: Float64Array) -> None:
    """Add the value before each reset inside the window to its increase, oldest first.

    The values themselves are never corrected: added to a counter at 1e15, a correction would
    swallow its increments.
    """
    values = block.values
    falls = np.flatnonzero(values[:, 1:] < values[:, :-1])
    if not falls.size:
        return
    rows, places = np.divmod(falls, values.shape[1] - 1)
    # Windows first … last - 1 of a row are those with the samples before and after the reset.
    first = _first_window(block, block.hi, rows, places + 2)
    last = np.maximum(_first_window(block, block.lo, rows, places + 1), first)
    before, steps = values[rows, places], block.times_ms.size
    ends = np.cumsum(last - first)
    flat, start = result.reshape(-1), 0
    while start < rows.size:
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + RESETS_AT_ONCE)))
        some = slice(start, stop)
        counts = last[some] - first[some]
        shift = rows[some] * steps + first[some] - (ends[some] - counts - done)
        cells = np.repeat(shift, counts) + np.arange(int(ends[stop - 1]) - done)
        # Unbuffered: a window with several resets has them added one by one, in their order.
        np.add.at(flat, cells, np.repeat(before[some], counts))
        start = stop


def _first_window(
    block: Block, bound: IndexArray, rows: IndexArray, number: IndexArray
) -> IndexArray:
    """For each (row, number), the row's first window whose bound is at least that number."""
    if bound.ndim == 1:
        return np.searchsorted(bound, number, side="left")
    steps, stride = bound.shape[1], block.values.shape[1] + 1
    if bound.shape[0] <= FEW_ROWS:
        edges = np.searchsorted(rows, np.arange(bound.shape[0] + 1))
        found = np.empty(rows.size, dtype=np.intp)
        for row, (start, stop) in enumerate(itertools.pairwise(edges.tolist())):
            found[start:stop] = np.searchsorted(bound[row], number[start:stop], side="left")
        return found
    ascending = (bound + (np.arange(bound.shape[0]) * stride)[:, None]).ravel()
    flat = np.searchsorted(ascending, number + rows * stride, side="left")
    first: IndexArray = np.clip(flat - rows * steps, 0, steps)
    return first


def irate(block: Block) -> Folded:
    """Increase per second between the last two samples; after a reset, from 0."""
    last, before = block.newest(), block.at(block.hi - 2)
    seconds = (block.times_at(block.hi - 1) - block.times_at(block.hi - 2)) / 1000
    risen = np.where(last < before, last, last - before)
    return risen / seconds, block.several


def idelta(block: Block) -> Folded:
    """The difference of the last two samples."""
    return block.newest() - block.at(block.hi - 2), block.several


def changes(block: Block) -> Folded:
    """How often the value changed. From NaN to NaN is no change."""
    values = block.values
    changed = values[:, 1:] != values[:, :-1]
    if changed.any() and np.isnan(values).any():
        changed &= ~(np.isnan(values[:, 1:]) & np.isnan(values[:, :-1]))
    return _count_steps(block, changed)


def resets(block: Block) -> Folded:
    """How often the value went down."""
    return _count_steps(block, block.values[:, 1:] < block.values[:, :-1])


def _count_steps(block: Block, flags: BoolArray) -> Folded:
    """How many of `flags`, [S, N - 1] between neighbours, lie inside each window."""
    before = np.empty(block.values.shape)
    before[:, 0] = 0.0
    np.cumsum(flags, axis=1, dtype=np.float64, out=before[:, 1:])
    counted = block.with_values(before)
    found = counted.newest()
    found -= counted.oldest()
    return found, block.filled


def looks_like_counter(
    context: Context,
    call: Call,
    frame: Frame,
    _scalars: tuple[Float64Array, ...],
) -> None:
    """Inform of metrics that are read as counters although their names say otherwise."""
    labels = frame.labels
    # A live rule's series are the same at the next step; a block's labels are seen once.
    strange = (
        REMEMBERED.get((labels,), "no counters", lambda: _strangers(labels))
        if frame.steps == 1
        else _strangers(labels)
    )
    if not strange:
        return
    # Of histograms nothing is said.
    present = frame.without_histograms().present
    alive: BoolArray = np.logical_or.reduce(present, axis=1)
    for row, name in strange:
        if alive[row]:
            context.notes.possible_non_counter(name, call.args[0].span)


def _strangers(labels: tuple[Labels, ...]) -> tuple[tuple[int, str], ...]:
    """The rows whose names are not a counter's."""
    names = ((row, own.get(METRIC_NAME)) for row, own in enumerate(labels))
    return tuple((row, name) for row, name in names if name and not name.endswith(COUNTER_SUFFIXES))
