"""topk, bottomk and count_values: aggregators that keep or make series by their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import quote
from engine.promql import ties
from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.functions.relabel import is_label_name
from engine.promql.grouping import Groups, grouped_labels, order_of
from engine.promql.natives import for_aggregator, refuse
from engine.promql.numbers import format_general, format_plain
from rules.promql.walk import unwrapped

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Aggregate, Expr

INT64_LIMIT = float(2**63)


def ranked(context: Context, node: Aggregate) -> Partial:
    """The k largest or smallest of each group, NaN last; an instant query orders them."""
    limits = limits_of(context, node)
    frame = for_aggregator(context, node, context.frame(node.expr))
    if frame.steps == 1:
        frame = frame.without_absent()
    groups = Groups.of(frame.labels, node)
    signed = frame.values if node.op == "topk" else -frame.values
    if frame.steps == 1:
        shown = _shown(signed[:, 0], groups, order_of(frame.labels), limits[0])
        return frame.take(shown, ordered=True)
    kept = np.zeros(frame.present.shape, dtype=np.bool_)
    for members in groups.members:
        rows = by_labels(members, frame.labels)
        values, present = signed[rows], frame.present[rows]
        kept[rows] = _best(values, present, _order(values, present), limits)
    return frame.with_values(frame.values, kept).without_absent()


def by_labels(rows: IndexArray, labels: tuple[Labels, ...]) -> IndexArray:
    """Rows ordered by labels, as a selector gives them.

    Which of equals stay depends on it, and must not on what else is on the axis.
    """
    return rows[np.argsort(order_of(labels)[rows])]


def _shown(values: Float64Array, groups: Groups, places: IndexArray, limit: float) -> list[int]:
    """The rows to show of one step at which all are present, group by group."""
    unknown = np.isnan(values)
    falling = np.where(unknown, 0.0, -values)
    order = np.lexsort((places, falling, unknown, groups.numbers))
    ordered, owners = values[order], groups.numbers[order]
    starts = np.searchsorted(owners, np.arange(len(groups.labels)))
    place = np.arange(order.size) - starts[owners]
    # Of equals on both sides of the limit, or to be shown in an order, a heap decides.
    tied = _equal(ordered[1:], ordered[:-1]) & (owners[1:] == owners[:-1]) & (place[1:] <= limit)
    crowded = set(owners[1:][tied].tolist())
    if not crowded:
        best: list[int] = order[place < limit].tolist()
        return best
    shown: list[int] = []
    for group, rows in enumerate(np.split(order, starts[1:])):
        count = int(max(0, min(limit, rows.size)))
        if group in crowded:
            alike = rows[np.argsort(places[rows])]
            shown += alike[ties.shown(values[alike].tolist(), count)].tolist()
        else:
            shown += rows[:count].tolist()
    return shown


def _order(values: Float64Array, present: BoolArray) -> IndexArray:
    """Row numbers from best to worst at each step, [S, T]; among equals the first comes first."""
    rank = np.where(present, np.where(np.isnan(values), 1, 0), 2)
    return np.lexsort((-values, rank), axis=0)


def _best(
    values: Float64Array, present: BoolArray, order: IndexArray, limits: Float64Array
) -> BoolArray:
    """The best of each step, bool[S, T]."""
    kept: BoolArray = present & (np.argsort(order, axis=0) < limits)
    counts = present.sum(axis=0)
    crowded = np.flatnonzero((limits > 0) & (limits < counts))
    if not crowded.size:
        return kept
    last = limits[crowded].astype(np.intp) - 1
    inside = values[order[last, crowded], crowded]
    outside = values[order[last + 1, crowded], crowded]
    tied = crowded[_equal(inside, outside)]
    for limit in np.unique(limits[tied]).tolist():
        steps = tied[limits[tied] == limit]
        kept[:, steps] = ties.kept(values[:, steps], present[:, steps], int(limit))
    return kept


def _equal(one: Float64Array, other: Float64Array) -> BoolArray:
    same: BoolArray = (one == other) | (np.isnan(one) & np.isnan(other))
    return same


def limits_of(context: Context, node: Aggregate) -> Float64Array:
    """The k of each step, [T]."""
    if node.param is None:
        raise EvaluationError(f"{node.op} needs a parameter", node.span)
    limits = context.scalar(node.param)
    if np.isnan(limits).any():
        raise EvaluationError("Parameter value is NaN", node.param.span)
    for limit, fault in (
        (limits.max(initial=0), "overflows"),
        (limits.min(initial=0), "underflows"),
    ):
        if abs(limit) >= INT64_LIMIT:
            raise EvaluationError(
                f"Scalar value {format_general(float(limit))} {fault} int64", node.param.span
            )
    return np.trunc(limits)


def count_values(context: Context, node: Aggregate) -> Partial:
    """One series per value and group: how many series have that value."""
    if node.param is None:
        raise EvaluationError("count_values needs a parameter", node.span)
    name = context.string(node.param)
    if not is_label_name(name):
        written = _as_written(context, node.param)
        raise EvaluationError(f"invalid label name {written}", node.param.span)
    frame = refuse(context.frame(node.expr), "count_values", node.expr.span)
    counts: dict[Labels, Float64Array] = {}
    drops: dict[Labels, bool] = {}
    texts: dict[int, str] = {}
    for row, labels in enumerate(frame.labels):
        here = frame.present[row]
        # By bits: 0 and -0 have texts of their own.
        bits = np.ascontiguousarray(frame.values[row]).view(np.int64)
        for pattern in np.unique(bits[here]).tolist():
            if pattern not in texts:
                texts[pattern] = format_plain(float(np.int64(pattern).view(np.float64)))
            text = texts[pattern]
            # The value's label joins the grouping, whatever it replaces there.
            kept = labels.merged({name: text})
            key = grouped_labels(kept, node)
            key = key if node.without and name in node.grouping else key.merged({name: text})
            tally = counts.get(key)
            if tally is None:
                context.require((len(counts) + 1) * frame.steps, node.span)
                tally = counts[key] = np.zeros(frame.steps)
            tally += here & (bits == pattern)
            drops[key] = False
    if not counts:
        return Frame.empty(frame.steps)
    values = np.stack(list(counts.values()))
    return Frame(tuple(counts), values, values > 0, tuple(drops[key] for key in counts))


def _as_written(context: Context, literal: Expr) -> str:
    """A string literal with its escapes: bytes that are no UTF-8 cannot be shown otherwise."""
    source, span = context.options.source, unwrapped(literal).span
    return quote(context.string(literal)) if source is None else source.text[span.start : span.end]
