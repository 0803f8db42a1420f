"""Aggregation across series: sum, avg, min, max, count, group, stddev, stdvar, quantile.

G groups, T steps. The series of a group are folded in the vector's order, so that sums round
exactly as Prometheus' do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.blocks import Part, parts_of
from engine.promql.errors import EvaluationError
from engine.promql.folding import FOLDS, Group, Rows
from engine.promql.frame import Frame
from engine.promql.grouping import Groups
from engine.promql.limits import limited
from engine.promql.natives import for_aggregator
from engine.promql.peers import PEERS, compared
from engine.promql.quantiles import quantile
from engine.promql.ranking import count_values, ranked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Aggregate


def aggregate(context: Context, node: Aggregate) -> Partial:
    """Any aggregator."""
    if node.op == "count_values":
        return count_values(context, node)
    if node.op in ("topk", "bottomk"):
        return ranked(context, node)
    if node.op in ("limitk", "limit_ratio"):
        return limited(context, node)
    if node.op in PEERS:
        return compared(context, node)
    if node.op == "quantile":
        return _quantile(context, node)
    if node.op not in FOLDS:
        raise EvaluationError(f"the aggregator {node.op} is not supported", node.span)
    return _folded(context, node)


def _folded(context: Context, node: Aggregate) -> Frame:
    """Part after part of the vector goes into the groups' running aggregates."""
    labels, parts = parts_of(context, node.expr)
    frame = _fold(context, node, labels, parts)
    if frame is None:
        # Of histograms it takes the whole vector to say what becomes of them.
        whole = for_aggregator(context, node, context.frame(node.expr))
        frame = _fold(context, node, whole.labels, (Part(0, whole),))
    return Frame.empty(context.steps) if frame is None else frame


def _fold(
    context: Context, node: Aggregate, labels: tuple[Labels, ...], parts: Iterable[Part]
) -> Frame | None:
    """The groups' aggregates; None once a native histogram is met."""
    groups = Groups.of(labels, node)
    count = len(groups.labels)
    context.require(count * context.steps, node.span)
    fold = FOLDS[node.op](count, context.steps)
    # The steps at which a series of the group loses its name; None while all of them do.
    fates: Group | None = None
    for part in parts:
        frame = part.frame
        if frame.histograms is not None:
            return None
        numbers = groups.numbers[part.first : part.first + len(frame.labels)]
        if fates is not None or not all(frame.drops):
            if fates is None:
                fates = Group(count, context.steps)
                fates.seen |= fold.seen
            going = np.array(frame.drops, dtype=np.bool_)
            fates.add(Rows(frame.values, frame.present, numbers).only(going))
        fold.add(Rows(frame.values, frame.present, numbers))
    fate = fold.seen if fates is None else fates.seen
    return _with_fates(groups, fold.result(), fold.seen, fate)


def _with_fates(groups: Groups, values: Float64Array, present: BoolArray, fate: BoolArray) -> Frame:
    """A group loses its name at the steps where one of its present series does."""
    count, never = len(groups.labels), not fate.any()
    if never or fate is present or np.array_equal(fate, present):
        return Frame(groups.labels, values, present, (not never,) * count).without_absent()
    return Frame(
        groups.labels * 2,
        np.concatenate([values, values]),
        np.concatenate([present & ~fate, present & fate]),
        (False,) * count + (True,) * count,
    ).without_absent()


def _quantile(context: Context, node: Aggregate) -> Partial:
    if node.param is None:
        raise EvaluationError("quantile needs a parameter", node.span)
    quantiles = context.scalar(node.param)
    frame = for_aggregator(context, node, context.frame(node.expr))
    every = np.ones((1, frame.steps), dtype=np.bool_)
    context.notes.check_quantiles(quantiles, every, node.param.span)
    groups = Groups.of(frame.labels, node)
    if not groups.labels:
        return Frame.empty(frame.steps)
    found = np.empty((len(groups.labels), frame.steps))
    for numbers, rows in groups.by_size():
        # [G, W, T] as [G, T, W].
        values, present = frame.values[rows], frame.present[rows]
        found[numbers] = quantile(quantiles, values.swapaxes(1, 2), present.swapaxes(1, 2))
    seen = Group(len(groups.labels), frame.steps)
    seen.add(Rows(frame.values, frame.present, groups.numbers))
    fates = Group(len(groups.labels), frame.steps)
    going = np.array(frame.drops, dtype=np.bool_)
    fates.add(Rows(frame.values, frame.present, groups.numbers).only(going))
    return _with_fates(groups, found, seen.seen, fates.seen)
