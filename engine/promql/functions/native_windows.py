"""What becomes of native histograms in a window: one rule for each function of a range vector.

A rule takes what the floats gave, for all rows, and puts right the rows that have histograms.
Source: promql/functions.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.labels import METRIC_NAME
from engine.promql.errors import NeedsNativeHistograms
from engine.promql.started import resets_by_start
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.promql.natives import NativeRow
    from engine.promql.windows import IndexArray, Windows
    from engine.series import BoolArray, Int64Array
    from rules.promql.ast import Expr

Rule: TypeAlias = "Callable[[Context, Expr, Windows, Frame], Frame]"
# Whether a sample is other than the one before it; None: only the histograms themselves can tell.
Step: TypeAlias = "Callable[[NativeRow, int], bool | None]"


def _bounds(windows: Windows, times_ms: Int64Array) -> tuple[IndexArray, IndexArray]:
    """lo[T] and hi[T], without a place in the shared cache."""
    lo = np.searchsorted(times_ms, windows.end_ms - windows.range_ms, side="right")
    hi = np.searchsorted(times_ms, windows.end_ms, side="right")
    return lo, np.maximum(lo, hi)


def _counts(windows: Windows, row: NativeRow) -> tuple[IndexArray, IndexArray]:
    """How many floats and how many histograms each window has, [T]."""
    lo, hi = _bounds(windows, row.times_ms)
    before = np.concatenate([[0], np.cumsum(row.native)])
    histograms = before[hi] - before[lo]
    return (hi - lo) - histograms, histograms


def _changed(frame: Frame) -> Frame:
    """The frame with arrays that can be written to."""
    return replace(frame, values=frame.values.copy(), present=frame.present.copy())


def ignored(context: Context, arg: Expr, windows: Windows, frame: Frame) -> Frame:
    """Only floats are looked at; a window with both says so."""
    for row in windows.natives:
        floats, histograms = _counts(windows, row)
        if ((floats > 0) & (histograms > 0)).any():
            context.notes.ignored_in_range(row.labels.get(METRIC_NAME), arg.span)
    return frame


def refused(least: int) -> Rule:
    """No result for a window with both, with a warning; `least` histograms alone decide one."""

    def rule(context: Context, arg: Expr, windows: Windows, frame: Frame) -> Frame:
        frame = _changed(frame)
        for row in windows.natives:
            floats, histograms = _counts(windows, row)
            mixed = (floats > 0) & (histograms > 0)
            if mixed.any():
                context.notes.mixed_floats_and_histograms(row.labels.get(METRIC_NAME), arg.span)
                frame.present[row.row] &= ~mixed
            # With a start timestamp one sample is enough.
            enough = least if row.starts_ms is None else 1
            if ((floats == 0) & (histograms >= enough)).any():
                raise NeedsNativeHistograms("a function of histograms", arg.span)
        return frame

    return rule


def counted(_context: Context, _arg: Expr, windows: Windows, frame: Frame) -> Frame:
    """`count_over_time`: samples of both kinds."""
    frame = _changed(frame)
    for row in windows.natives:
        floats, histograms = _counts(windows, row)
        frame.values[row.row] = floats + histograms
        frame.present[row.row] = floats + histograms > 0
    return frame


def seen(_context: Context, _arg: Expr, windows: Windows, frame: Frame) -> Frame:
    """`present_over_time`: samples of either kind."""
    frame = _changed(frame)
    for row in windows.natives:
        lo, hi = _bounds(windows, row.times_ms)
        frame.present[row.row] = hi > lo
        frame.values[row.row] = 1.0
    return frame


def chosen(*, newest: bool, when: bool = False) -> Rule:
    """The oldest or newest sample of either kind, or its time in seconds."""

    def rule(_context: Context, _arg: Expr, windows: Windows, frame: Frame) -> Frame:
        frame = _changed(frame)
        mask = np.zeros(frame.present.shape, dtype=np.bool_)
        for row in windows.natives:
            lo, hi = _bounds(windows, row.times_ms)
            at = np.clip(hi - 1 if newest else lo, 0, row.times_ms.size - 1)
            frame.present[row.row] = hi > lo
            if when:
                frame.values[row.row] = row.times_ms[at] / 1000
            else:
                frame.values[row.row] = row.values[at]
                mask[row.row] = row.native[at]
        return frame if when else replace(frame, histograms=mask)

    return rule


def last_two(context: Context, arg: Expr, windows: Windows, frame: Frame) -> Frame:
    """`irate` and `idelta`: the last two samples, whatever they are."""
    frame = _changed(frame)
    for row in windows.natives:
        lo, hi = _bounds(windows, row.times_ms)
        enough = hi - lo > 1
        last, before = np.clip(hi - 1, 0, None), np.clip(hi - 2, 0, None)
        native = row.native
        one, other = native[last] & enough, native[before] & enough
        if (one & other).any():
            raise NeedsNativeHistograms("a difference of histograms", arg.span)
        if (one != other).any():
            context.notes.mixed_floats_and_histograms(row.labels.get(METRIC_NAME), arg.span)
        frame.present[row.row] &= enough & ~one & ~other
    return frame


def counting(step: Step) -> Rule:
    """`changes` and `resets`: steps from each sample to the next, of either kind."""

    def rule(_context: Context, arg: Expr, windows: Windows, frame: Frame) -> Frame:
        frame = _changed(frame)
        for row in windows.natives:
            count, present = count_steps(row, step, *_bounds(windows, row.times_ms), arg)
            frame.values[row.row], frame.present[row.row] = count, present
        return frame

    return rule


def count_steps(
    row: NativeRow, step: Step, lo: IndexArray, hi: IndexArray, arg: Expr
) -> tuple[IndexArray, BoolArray]:
    """How many steps there are in each window lo … hi - 1, and which windows have a sample.

    Raises NeedsNativeHistograms where only the histograms could tell.
    """
    steps = [False, *(step(row, at) for at in range(1, row.times_ms.size))]
    unknown = np.concatenate([[0], np.cumsum([one is None for one in steps])])
    known = np.concatenate([[0], np.cumsum([one is True for one in steps])])
    present = hi > lo
    first = np.minimum(lo + 1, hi)
    if (unknown[hi] - unknown[first])[present].any():
        raise NeedsNativeHistograms("the step from one histogram to the next", arg.span)
    return known[hi] - known[first], present


def is_change(row: NativeRow, at: int) -> bool | None:
    """Whether a sample differs from the one before it."""
    now, before = row.texts[at], row.texts[at - 1]
    if now is None and before is None:
        one, other = row.values[at], row.values[at - 1]
        return bool(one != other and not (np.isnan(one) and np.isnan(other)))
    if now is None or before is None:
        return True
    return False if now and now == before else None


def is_reset(row: NativeRow, at: int) -> bool | None:
    """Whether a sample follows a reset. A histogram after a float is one, and the other way."""
    now, before = row.texts[at], row.texts[at - 1]
    if (now is None) != (before is None):
        return True
    if row.starts_ms is not None:
        pair = slice(at - 1, at + 1)
        if resets_by_start(row.times_ms[pair], row.starts_ms[pair])[1]:
            return True
    if now is None:
        return bool(row.values[at] < row.values[at - 1])
    return False if now and now == before and "counter_reset_hint" not in now else None


RULES: dict[str, Rule] = {
    "avg_over_time": refused(1),
    "changes": counting(is_change),
    "count_over_time": counted,
    "delta": refused(2),
    "first_over_time": chosen(newest=False),
    "idelta": last_two,
    "increase": refused(2),
    "irate": last_two,
    "last_over_time": chosen(newest=True),
    "present_over_time": seen,
    "rate": refused(2),
    "resets": counting(is_reset),
    "sum_over_time": refused(1),
    "ts_of_first_over_time": chosen(newest=False, when=True),
    "ts_of_last_over_time": chosen(newest=True, when=True),
}


def settle(context: Context, function: str, arg: Expr, windows: Windows, frame: Frame) -> Frame:
    """The frame of a function of a range vector, its histograms done justice."""
    if not windows.natives:
        return frame
    return RULES.get(function, ignored)(context, arg, windows, frame)
