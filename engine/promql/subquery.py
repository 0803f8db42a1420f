"""Subqueries: an expression evaluated on steps of its own becomes a range vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.natives import native_rows_of_frame
from engine.promql.rows import without
from engine.promql.windows import Samples, Windows

if TYPE_CHECKING:
    from engine.promql.context import Context
    from engine.series import Int64Array
    from rules.promql.ast import Subquery


def windows(context: Context, query: Subquery) -> Windows:
    """The values of the inner expression in (t - range, t], at each step t.

    Its steps are absolute multiples of the subquery's step, whatever the query's own steps are.
    """
    end = context.reference_times(query.at, query.offset)
    inner = context.on(_multiples(context, query, end))
    # Rows that an operation made equal, each present at its own steps, are one series here.
    frame = inner.frame(query.expr).merged(query.span)
    every = np.arange(len(frame.labels), dtype=np.intp)
    groups = tuple(
        without(Samples(every, inner.times_ms, frame.values), ~frame.without_histograms().present)
    )
    range_ms = query.range.milliseconds
    return Windows(
        frame.labels,
        frame.drops,
        groups,
        context.times_ms,
        end,
        range_ms,
        context.times.bounds,
        natives=native_rows_of_frame(frame, inner.times_ms),
    )


def steps_of(context: Context, query: Subquery) -> Int64Array:
    """The times at which a subquery evaluates its inner expression."""
    return _multiples(context, query, context.reference_times(query.at, query.offset))


def _multiples(context: Context, query: Subquery, end: Int64Array) -> Int64Array:
    """Every multiple of the step in the windows' union; too many are refused first."""
    step = context.options.default_step_ms if query.step is None else query.step.milliseconds
    if not end.size:
        return np.empty(0, dtype=np.int64)
    first = ((int(end.min()) - query.range.milliseconds) // step + 1) * step
    last = int(end.max())
    context.require(max(0, (last - first) // step + 1), query.span)
    return context.times.multiples(first, last, step)
