"""Selectors: which sample, or which window of samples, each step sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.matching import matcher_key
from engine.promql import natives
from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.rows import Rows
from engine.promql.started import started_rows
from engine.promql.windows import Windows
from engine.series import Tabular, stale_mask
from rules.promql.ast import VectorSelector
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.promql.context import Context
    from engine.series import Int64Array
    from rules.promql.ast import MatrixSelector


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """What an instant selector found. `sample_times_ms`: int64[S, T], where present."""

    frame: Frame
    sample_times_ms: Int64Array


def instant(context: Context, selector: VectorSelector, *, timed: bool = True) -> Selected:
    """The newest sample of each series in (t - look-back, t], at each step; its time if `timed`.

    Left-open, as in Prometheus 3. A series whose newest sample is a staleness marker is absent.
    """
    lookback = context.options.lookback_ms
    at = context.reference_times(selector.at, selector.offset)
    rows = rows_of(context, selector)
    shape = (len(rows.labels), context.steps)
    context.require(shape[0] * shape[1], selector.span)
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    times = np.zeros(shape if timed else (0, 0), dtype=np.int64)
    drops = (False,) * shape[0]
    groups = tuple(rows.samples())
    # The look-back is a window too, staleness markers included.
    cache = context.times.bounds
    seen = Windows(rows.labels, drops, groups, context.times_ms, at, lookback, cache)
    for numbers, block in seen.blocks():
        # take() copies bits: the marker must not pass through arithmetic before it is tested.
        found = block.newest()
        alive = block.filled & ~stale_mask(found)
        values[numbers] = found if alive.all() else np.where(alive, found, 0.0)
        present[numbers] = alive
        if timed:
            times[numbers] = block.bounds.times_at(block.bounds.newest)
    histograms = None
    for group in rows.groups:
        if group.series is not None:
            newest = np.searchsorted(group.timestamps_ms, at, side="right") - 1
            histograms = natives.mark(histograms, group, np.maximum(newest, 0), shape)
    return Selected(Frame(rows.labels, values, present, drops, histograms=histograms), times)


def windows(context: Context, matrix: MatrixSelector) -> Windows:
    """The samples of each series in (t - range, t], at each step, less staleness markers."""
    selector, range_ms = matrix.selector, matrix.range.milliseconds
    if selector.modifier is not None:
        raise EvaluationError(
            f"{selector.modifier} modifier can only be used with functions of rates and changes",
            matrix.span,
        )
    end = context.reference_times(selector.at, selector.offset)
    rows = rows_of(context, matrix)
    context.require(len(rows.labels) * context.steps, matrix.span)
    groups = tuple(rows.without_markers())
    drops = (False,) * len(rows.labels)
    starts = context.options.start_timestamps
    return Windows(
        rows.labels,
        drops,
        groups,
        context.times_ms,
        end,
        range_ms,
        context.times.bounds,
        natives=natives.native_rows(rows, starts=starts),
        started=started_rows(rows) if starts else (),
    )


def start_times_ms(context: Context, selector: VectorSelector) -> Int64Array:
    """Since when the samples of `instant` have been counting, int64[S, T]; 0: unknown."""
    at = context.reference_times(selector.at, selector.offset)
    rows = rows_of(context, selector)
    starts = np.zeros((len(rows.labels), context.steps), dtype=np.int64)
    for group in rows.groups:
        index = np.searchsorted(group.timestamps_ms, at, side="right") - 1
        for row, one in zip(group.rows.tolist(), group.series or (), strict=False):
            if one.starts_ms is not None:
                starts[row] = one.starts_ms[np.maximum(index, 0)]
    return starts


def rows_of(context: Context, leaf: VectorSelector | MatrixSelector) -> Rows:
    """The series that a selector reads at all of the context's times."""
    if context.rows is not None:
        return context.rows
    selector = leaf if isinstance(leaf, VectorSelector) else leaf.selector
    span_ms = reach_of(context, leaf)
    if span_ms is None:
        return Rows.none()
    first, last = span_ms
    queryable, matchers = context.queryable, selector.matchers

    def select() -> Rows:
        table = queryable.table(matchers, first, last) if isinstance(queryable, Tabular) else None
        return Rows.of(queryable.select(matchers, first, last) if table is None else table)

    shared = context.options.shared
    if shared is None:
        rows = select()
    else:
        rows = shared.rows(leaf, context, (matcher_key(matchers), first, last), select)
    context.require_work(len(rows.labels), leaf.span)
    return rows


def reach_of(context: Context, leaf: VectorSelector | MatrixSelector) -> tuple[int, int] | None:
    """The first and the last time that a selector looks at; None if there are no steps."""
    lookback = context.options.lookback_ms
    if isinstance(leaf, VectorSelector):
        selector, range_ms = leaf, lookback
    else:
        selector, range_ms = leaf.selector, leaf.range.milliseconds
        # What a modifier looks at beside the window.
        range_ms += 0 if selector.modifier is None else lookback
    after_ms = lookback if selector.modifier == "smoothed" else 0
    at = context.reference_times(selector.at, selector.offset)
    if not at.size:
        return None
    return int(at.min()) - range_ms + 1, int(at.max()) + after_ms
