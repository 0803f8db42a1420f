"""`anchored` and `smoothed`: range functions that look at the samples beside their window.

An anchored window begins with the newest sample at or before its start, and nothing is
extrapolated. A smoothed one is interpolated at both of its edges, for which it reads as far as the
look-back before and after it. Source: promql/functions.go, extendedRate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.labels import METRIC_NAME
from engine.promql import selection
from engine.promql.errors import EvaluationError, NeedsNativeHistograms
from engine.promql.frame import Frame
from engine.promql.functions import native_windows
from engine.promql.natives import native_rows
from rules.promql.functions import ANCHORED_FUNCTIONS, SMOOTHED_FUNCTIONS
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context
    from engine.promql.natives import NativeRow
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Float64Array, Int64Array
    from rules.promql.ast import Call, Expr, MatrixSelector, VectorSelector

    Folded: TypeAlias = tuple[Float64Array, BoolArray]


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """Windows (start, end] of one series, [T], and the samples beside them.

    `lo` … `hi` - 1 are the samples that may be read: from a look-back before the start on, and up
    to the end or, smoothed, a look-back after it.
    """

    times_ms: Int64Array
    values: Float64Array
    start_ms: Int64Array
    end_ms: Int64Array
    lo: IndexArray
    hi: IndexArray
    smoothed: bool

    @classmethod
    def of(
        cls,
        times_ms: Int64Array,
        values: Float64Array,
        end_ms: Int64Array,
        range_ms: int,
        lookback_ms: int,
        seen_ms: Int64Array | None,
        *,
        smoothed: bool,
    ) -> Reach:
        """The windows that end at `end_ms`; no sample after `seen_ms` is visible."""
        start_ms = end_ms - range_ms
        lo = np.searchsorted(times_ms, start_ms - lookback_ms, side="right")
        last = end_ms + lookback_ms if smoothed else end_ms
        last = last if seen_ms is None else np.minimum(last, seen_ms)
        hi = np.maximum(lo, np.searchsorted(times_ms, last, side="right"))
        return cls(times_ms, values, start_ms, end_ms, lo, hi, smoothed)

    @property
    def first(self) -> IndexArray:
        """The newest sample at or before the start, else the oldest that may be read."""
        after = np.searchsorted(self.times_ms, self.start_ms, side="right")
        return np.clip(after - 1, self.lo, np.maximum(self.lo, self.hi - 1))

    @property
    def last(self) -> IndexArray:
        """Anchored: the newest sample; smoothed: the oldest at or after the end, if any."""
        if not self.smoothed:
            return np.maximum(self.lo, self.hi - 1)
        at = np.searchsorted(self.times_ms, self.end_ms, side="left")
        return np.clip(at, self.lo, np.maximum(self.lo, self.hi - 1))


def over_extended(context: Context, call: Call, matrix: MatrixSelector) -> Frame:
    """A function of a range selector with a modifier; names are not dropped yet."""
    selector = matrix.selector
    smoothed = selector.modifier == "smoothed"
    allowed = SMOOTHED_FUNCTIONS if smoothed else ANCHORED_FUNCTIONS
    if call.func not in allowed:
        raise EvaluationError(
            f"{selector.modifier} modifier can only be used with: {', '.join(sorted(allowed))} - "
            f"not with {call.func}",
            matrix.span,
        )
    end = context.reference_times(selector.at, selector.offset)
    rows = selection.rows_of(context, matrix)
    context.require(len(rows.labels) * context.steps, matrix.span)
    shape = (len(rows.labels), context.steps)
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    lookback_ms, range_ms = context.options.lookback_ms, matrix.range.milliseconds
    seen = context.times_ms if context.rule else None
    for samples in rows.without_markers():
        for row, own in zip(samples.rows.tolist(), samples.values, strict=True):
            reach = Reach.of(
                samples.timestamps_ms, own, end, range_ms, lookback_ms, seen, smoothed=smoothed
            )
            values[row], present[row] = FUNCTIONS[call.func](reach)
    frame = Frame(rows.labels, values, present, (False,) * shape[0])
    for native in native_rows(rows, starts=context.options.start_timestamps):
        edges = Reach.of(
            native.times_ms, native.values, end, range_ms, lookback_ms, seen, smoothed=smoothed
        )
        frame = _settled(context, call, matrix, frame, native, edges)
    return frame


def _settled(
    context: Context, call: Call, arg: Expr, frame: Frame, row: NativeRow, reach: Reach
) -> Frame:
    """The frame with a row that has histograms put right."""
    values, present = frame.values.copy(), frame.present.copy()
    if call.func in ("changes", "resets"):
        step = native_windows.is_change if call.func == "changes" else native_windows.is_reset
        first = reach.first
        count, seen = native_windows.count_steps(row, step, first, reach.hi, arg)
        values[row.row] = count
        present[row.row] = seen & _beyond_start(reach)
        return replace(frame, values=values, present=present)
    native = np.concatenate([[0], np.cumsum(row.native)])
    histograms = native[reach.hi] - native[reach.lo]
    floats = reach.hi - reach.lo - histograms
    mixed = (floats > 0) & (histograms > 0)
    if ((floats == 0) & (histograms > 0)).any():
        raise NeedsNativeHistograms("a function of histograms", arg.span)
    if mixed.any():
        context.notes.mixed_floats_and_histograms(row.labels.get(METRIC_NAME), arg.span)
    present[row.row] &= ~mixed
    return replace(frame, present=present)


def _beyond_start(reach: Reach) -> BoolArray:
    """Whether the newest sample is after the window's start."""
    filled = reach.hi > reach.lo
    if not reach.times_ms.size:
        return filled
    last = np.minimum(reach.last, reach.times_ms.size - 1)
    return filled & (reach.times_ms[last] > reach.start_ms)


def _risen(reach: Reach, *, counter: bool) -> Folded:
    """How far a series rose from edge to edge."""
    times, values = reach.times_ms, reach.values
    first, last = reach.first, reach.last
    present = _beyond_start(reach)
    if not times.size:
        return np.zeros(first.size), present
    first, last = np.minimum(first, times.size - 1), np.minimum(last, times.size - 1)
    if reach.smoothed:
        present &= times[first] <= reach.end_ms
    left, right = values[first], values[last]
    if reach.smoothed:
        before = (times[first] < reach.start_ms) & (first < times.size - 1)
        after = (times[last] > reach.end_ms) & (last > reach.lo)
        left = np.where(before, _between(reach, first, reach.start_ms, counter=counter), left)
        right = np.where(after, _between(reach, last - 1, reach.end_ms, counter=counter), right)
    risen = right - left
    if counter:
        risen = risen + _corrections(reach, first, last, left, right)
    return risen, present


def _between(reach: Reach, at: IndexArray, time_ms: Int64Array, *, counter: bool) -> Float64Array:
    """The line from sample `at` to the next, at a time; after a reset it rises from 0."""
    at = np.clip(at, 0, max(0, reach.times_ms.size - 2))
    after = np.minimum(at + 1, reach.times_ms.size - 1)
    low, high = reach.values[at], reach.values[after]
    if counter:
        low = np.where(high < low, 0.0, low)
    apart = reach.times_ms[after] - reach.times_ms[at]
    line: Float64Array = low + (high - low) * (time_ms - reach.times_ms[at]) / apart
    return line


def _corrections(
    reach: Reach, first: IndexArray, last: IndexArray, left: Float64Array, right: Float64Array
) -> Float64Array:
    """What resets took, from the left value over the samples inside to the right value."""
    times, values = reach.times_ms, reach.values
    low = np.where(times[first] <= reach.start_ms, first + 1, first)
    high = np.where(times[last] >= reach.end_ms, last - 1, last)
    inside = high >= low
    low_at, high_at = np.clip(low, 0, times.size - 1), np.clip(high, 0, times.size - 1)
    found = np.where(inside & (values[low_at] < left), left, 0.0)
    end = np.where(inside, values[high_at], left)
    # Resets are few: each is added to the windows that hold it and the sample before it.
    for at in (np.flatnonzero(values[1:] < values[:-1]) + 1).tolist():
        found = found + np.where((low < at) & (at <= high), values[at - 1], 0.0)
    return found + np.where(right < end, end, 0.0)


def _stepped(flags: Callable[[Float64Array], BoolArray]) -> Callable[[Reach], Folded]:
    """How many of the flags, from each sample to the next, lie between anchor and end."""

    def function(reach: Reach) -> Folded:
        present = _beyond_start(reach)
        before = np.zeros(reach.values.size + 1)
        if reach.values.size > 1:
            before[1:-1] = np.cumsum(flags(reach.values))
            before[-1] = before[-2]
        last = np.maximum(reach.last, reach.first)
        return before[last] - before[reach.first], present

    return function


def _changed(values: Float64Array) -> BoolArray:
    changed: BoolArray = values[1:] != values[:-1]
    changed &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    return changed


def _fell(values: Float64Array) -> BoolArray:
    fell: BoolArray = values[1:] < values[:-1]
    return fell


def increase(reach: Reach) -> Folded:
    """The rise over the window, resets made good."""
    return _risen(reach, counter=True)


def delta(reach: Reach) -> Folded:
    """The difference over the window."""
    return _risen(reach, counter=False)


def rate(reach: Reach) -> Folded:
    """`increase` per second."""
    risen, present = _risen(reach, counter=True)
    return risen / ((reach.end_ms - reach.start_ms) / 1000), present


FUNCTIONS: dict[str, Callable[[Reach], Folded]] = {
    "changes": _stepped(_changed),
    "delta": delta,
    "increase": increase,
    "rate": rate,
    "resets": _stepped(_fell),
}


def smoothed_instant(context: Context, selector: VectorSelector) -> Frame:
    """A selector's value on the line between the samples around each step.

    After the newest sample its value holds for the look-back; before the oldest there is none.
    """
    at = context.reference_times(selector.at, selector.offset)
    rows = selection.rows_of(context, selector)
    context.require(len(rows.labels) * context.steps, selector.span)
    shape = (len(rows.labels), context.steps)
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    lookback_ms = context.options.lookback_ms
    latest = np.minimum(at + lookback_ms, context.times_ms) if context.rule else at + lookback_ms
    for samples in rows.without_markers():
        times = samples.timestamps_ms
        newest = np.searchsorted(times, at, side="right") - 1
        index = np.maximum(newest, 0)
        here = (newest >= 0) & (times[index] > at - lookback_ms)
        after = np.minimum(index + 1, times.size - 1)
        between = (times[index] < at) & (after > index) & (times[after] <= latest)
        apart = np.where(between, times[after] - times[index], 1)
        low, high = samples.values[:, index], samples.values[:, after]
        line = low + (high - low) * (at - times[index]) / apart
        values[samples.rows] = np.where(between, line, low)
        present[samples.rows] = here
    frame = Frame(rows.labels, values, present, (False,) * shape[0])
    for native in native_rows(rows, starts=False):
        around = (native.times_ms[:, None] > at - lookback_ms) & (
            native.times_ms[:, None] <= latest
        )
        histograms = (around & native.native[:, None]).any(axis=0)
        floats = (around & ~native.native[:, None]).any(axis=0)
        if (histograms & ~floats).any():
            raise NeedsNativeHistograms("a smoothed histogram", selector.span)
        if (histograms & floats).any():
            name = native.labels.get(METRIC_NAME)
            context.notes.mixed_floats_and_histograms(name, selector.span)
            frame.present[native.row] &= ~histograms
    return frame
