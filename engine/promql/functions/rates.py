"""rate, increase, delta and their kin: how fast something changes within a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME

if TYPE_CHECKING:
    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.promql.windows import Block, Folded, Windows
    from engine.series import Float64Array
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
    lo, last = block.lo, block.hi - 1
    enough = block.widths > 1
    first_values = block.at(lo)
    result = block.at(last) - first_values
    if counter:
        result = _with_resets(block, result)
    first_ms, last_ms = block.times_at(lo), block.times_at(last)
    sampled = (last_ms - first_ms) / 1000
    spacing = sampled / (block.widths - 1)
    to_start = (first_ms - (block.end_ms - block.range_ms)) / 1000
    to_end = (block.end_ms - last_ms) / 1000
    threshold = spacing * 1.1
    to_start = np.where(to_start >= threshold, spacing / 2, to_start)
    to_end = np.where(to_end >= threshold, spacing / 2, to_end)
    if counter:
        to_zero = sampled * (first_values / result)
        cut = (result > 0) & (first_values >= 0) & (to_zero < to_start)
        before = np.where(cut, to_zero, to_start)
    else:
        before = np.broadcast_to(to_start, result.shape)
    factor = (sampled + before + to_end) / sampled
    if per_second:
        factor = factor / (block.range_ms / 1000)
    return result * factor, block.where(enough)


def _with_resets(block: Block, result: Float64Array) -> Float64Array:
    """Add the value before each reset inside the window, oldest first.

    The values themselves are never corrected: added to a counter at 1e15, a correction would
    swallow its increments.
    """
    values = block.values
    down = values[:, 1:] < values[:, :-1]
    if not down.any():
        return result
    result = result.copy()
    # before[s, i]: how many resets happen up to sample i; the k-th reset of row s in the window
    # is then number before[lo] + k of that row.
    before = np.zeros(values.shape, dtype=np.intp)
    np.cumsum(down, axis=1, out=before[:, 1:])
    rows_of, places = np.nonzero(down)
    starts = np.searchsorted(rows_of, np.arange(values.shape[0]))[:, None]
    height = values.shape[1]
    first = before[:, np.minimum(block.lo, height - 1)]
    count = before[:, np.clip(block.hi - 1, 0, height - 1)] - first
    count = np.where(block.widths > 1, count, 0)
    for number in range(int(count.max(initial=0))):
        rows, columns = np.nonzero(count > number)
        place = places[(starts + first)[rows, columns] + number]
        result[rows, columns] += values[rows, place]
    return result


def irate(block: Block) -> Folded:
    """Increase per second between the last two samples; after a reset, from 0."""
    last, before = block.at(block.hi - 1), block.at(block.hi - 2)
    seconds = (block.times_at(block.hi - 1) - block.times_at(block.hi - 2)) / 1000
    risen = np.where(last < before, last, last - before)
    return risen / seconds, block.where(block.widths > 1)


def idelta(block: Block) -> Folded:
    """The difference of the last two samples."""
    return block.at(block.hi - 1) - block.at(block.hi - 2), block.where(block.widths > 1)


def changes(block: Block) -> Folded:
    """How often the value changed. From NaN to NaN is no change."""
    values = block.values
    same = (values[:, 1:] == values[:, :-1]) | (np.isnan(values[:, 1:]) & np.isnan(values[:, :-1]))
    return _count_steps(block, ~same)


def resets(block: Block) -> Folded:
    """How often the value went down."""
    return _count_steps(block, block.values[:, 1:] < block.values[:, :-1])


def _count_steps(block: Block, flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Folded:
    """How many of `flags`, [S, N - 1] between neighbours, lie inside each window."""
    present = block.where(block.widths > 0)
    height = block.values.shape[1]
    if not height:
        return np.zeros(block.shape), present
    before = np.zeros(block.values.shape, dtype=np.int64)
    np.cumsum(flags, axis=1, out=before[:, 1:])
    first = before[:, np.minimum(block.lo, height - 1)]
    last = before[:, np.clip(block.hi - 1, 0, height - 1)]
    return (last - first).astype(np.float64), present


def looks_like_counter(
    context: Context,
    call: Call,
    windows: Windows,
    frame: Frame,
    _scalars: tuple[Float64Array, ...],
) -> None:
    """Inform of metrics that are read as counters although their names say otherwise."""
    alive = frame.present.any(axis=1)
    for row in np.flatnonzero(alive).tolist():
        name = windows.labels[row].get(METRIC_NAME)
        if name and not name.endswith(COUNTER_SUFFIXES):
            context.notes.possible_non_counter(name, call.args[0].span)
