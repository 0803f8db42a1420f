"""Aggregation across series: sum, avg, min, max, count, group, stddev, stdvar, quantile.

G groups, T steps. Each kernel folds the series of a group in the vector's order, so that sums
round exactly as Prometheus' do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.grouping import Groups
from engine.promql.quantiles import quantile
from engine.promql.ranking import count_values, ranked
from engine.promql.summation import NEUTRAL, accumulated, add, is_plain, two_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.promql.context import Context, Partial
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Aggregate

# Cells of [member, step] summed at once.
PLAIN_CELLS = 65_536

Aggregation: TypeAlias = "Callable[[Frame, Groups], Float64Array]"


def aggregate(context: Context, node: Aggregate) -> Partial:
    """Any aggregator."""
    if node.op == "count_values":
        return count_values(context, node)
    if node.op in ("topk", "bottomk"):
        return ranked(context, node)
    if node.op == "quantile":
        return _quantile(context, node)
    kernel = KERNELS.get(node.op)
    if kernel is None:
        raise EvaluationError(f"the aggregator {node.op} is not supported", node.span)
    frame = context.frame(node.expr)
    return _grouped(frame, node, kernel)


def _grouped(frame: Frame, node: Aggregate, kernel: Aggregation) -> Frame:
    groups = Groups.of(frame.labels, node)
    if not groups.labels:
        return Frame.empty(frame.steps)
    values = kernel(frame, groups)
    present = np.stack([frame.present[rows].any(axis=0) for rows in groups.members])
    if not any(frame.drops):
        return Frame(groups.labels, values, present, (False,) * len(groups.labels))
    return _with_fates(frame, groups, values, present)


def _with_fates(frame: Frame, groups: Groups, values: Float64Array, present: BoolArray) -> Frame:
    """A group loses its name at the steps where one of its present series does."""
    going = frame.present & np.array(frame.drops)[:, None]
    drops = np.stack([going[rows].any(axis=0) for rows in groups.members])
    return Frame(
        groups.labels * 2,
        np.concatenate([values, values]),
        np.concatenate([present & ~drops, present & drops]),
        (False,) * len(groups.labels) + (True,) * len(groups.labels),
    ).without_absent()


def _plain_sums(held: Float64Array, groups: Groups) -> tuple[Float64Array, Float64Array]:
    """Totals and carries, [G, T], of values that are plain, absent ones being neutral."""
    shape = (len(groups.labels), held.shape[1])
    total, carry = np.full(shape, NEUTRAL), np.zeros(shape)
    if shape[0] > groups.members[0].size:
        for rows in groups.passes():
            at = slice(0, rows.size)
            total[at], lost = two_sum(total[at], held[rows])
            carry[at] += lost
        return total, carry
    for group, rows in enumerate(groups.members):
        width = max(1, PLAIN_CELLS // rows.size)
        for start in range(0, shape[1], width):
            columns = slice(start, start + width)
            total[group, columns], carry[group, columns] = accumulated(held[rows, columns])
    return total, carry


def _held(frame: Frame) -> Float64Array:
    return np.where(frame.present, frame.values, NEUTRAL)


def _sum(frame: Frame, groups: Groups) -> Float64Array:
    held = _held(frame)
    if is_plain(held):
        total, carry = _plain_sums(held, groups)
        return total + carry
    return _guarded_sum(frame, groups)


def _guarded_sum(frame: Frame, groups: Groups) -> Float64Array:
    """A sum that may meet infinities, which forget their carry."""
    total = np.zeros((len(groups.labels), frame.steps))
    carry, seen = np.zeros_like(total), np.zeros(total.shape, dtype=np.bool_)
    for rows in groups.passes():
        at = slice(0, rows.size)
        value, here = frame.values[rows], frame.present[rows]
        new_total, new_carry = add(value, total[at], carry[at])
        # The first value is taken, not added: 0 + -0 would lose its sign.
        total[at] = np.where(here, np.where(seen[at], new_total, value), total[at])
        carry[at] = np.where(here & seen[at], new_carry, carry[at])
        seen[at] |= here
    return total + carry


def _avg(frame: Frame, groups: Groups) -> Float64Array:
    held = _held(frame)
    if is_plain(held):
        total, carry = _plain_sums(held, groups)
        count = _count(frame, groups)
        return total / count + carry / count
    return _guarded_avg(frame, groups)


def _guarded_avg(frame: Frame, groups: Groups) -> Float64Array:
    """A mean whose sum may overflow: incremental from there on, as in Prometheus."""
    shape = (len(groups.labels), frame.steps)
    total, carry, mean, count = (np.zeros(shape) for _ in range(4))
    incremental = np.zeros(shape, dtype=np.bool_)
    for rows in groups.passes():
        at = slice(0, rows.size)
        value, here = frame.values[rows], frame.present[rows]
        first = here & (count[at] == 0)
        here = here & ~first
        count[at] += first | here
        total[at] = np.where(first, value, total[at])
        new_total, new_carry = add(value, total[at], carry[at])
        overflow = here & (incremental[at] | np.isinf(new_total))
        turned = overflow & ~incremental[at]
        was = np.maximum(count[at] - 1, 1)
        mean[at] = np.where(turned, total[at] / was, mean[at])
        carry[at] = np.where(turned, carry[at] / was, carry[at])
        share = (count[at] - 1) / count[at]
        new_mean, mean_carry = add(value / count[at], share * mean[at], share * carry[at])
        direct = here & ~overflow
        mean[at] = np.where(overflow, new_mean, mean[at])
        total[at] = np.where(direct, new_total, total[at])
        carry[at] = np.where(overflow, mean_carry, np.where(direct, new_carry, carry[at]))
        incremental[at] |= overflow
    return np.where(incremental, mean + carry, total / count + carry / count)


def _extreme(beats: Callable[[Float64Array, Float64Array], BoolArray]) -> Aggregation:
    def kernel(frame: Frame, groups: Groups) -> Float64Array:
        best = np.full((len(groups.labels), frame.steps), np.nan)
        for rows in groups.passes():
            value, held = frame.values[rows], best[: rows.size]
            wins = frame.present[rows] & (beats(value, held) | np.isnan(held))
            best[: rows.size] = np.where(wins, value, held)
        return best

    return kernel


def _count(frame: Frame, groups: Groups) -> Float64Array:
    return np.stack([frame.present[rows].sum(axis=0) for rows in groups.members]).astype(np.float64)


def _group(frame: Frame, groups: Groups) -> Float64Array:
    return np.ones((len(groups.labels), frame.steps))


def _variance(frame: Frame, groups: Groups) -> Float64Array:
    """Welford's update, uncompensated here as in Prometheus; 0 for a constant."""
    shape = (len(groups.labels), frame.steps)
    squares, mean, count = (np.zeros(shape) for _ in range(3))
    for rows in groups.passes():
        at = slice(0, rows.size)
        value, here = frame.values[rows], frame.present[rows]
        first = here & (count[at] == 0)
        count[at] += here
        away = value - mean[at]
        new_mean = np.where(first, value, mean[at] + away / count[at])
        start = np.where(np.isfinite(value), 0.0, np.nan)
        new_squares = np.where(first, start, squares[at] + away * (value - new_mean))
        mean[at] = np.where(here, new_mean, mean[at])
        squares[at] = np.where(here, new_squares, squares[at])
    return squares / count


def _deviation(frame: Frame, groups: Groups) -> Float64Array:
    return np.sqrt(_variance(frame, groups))


def _quantile(context: Context, node: Aggregate) -> Partial:
    if node.param is None:
        raise EvaluationError("quantile needs a parameter", node.span)
    quantiles = context.scalar(node.param)
    frame = context.frame(node.expr)
    every = np.ones((1, frame.steps), dtype=np.bool_)
    context.notes.check_quantiles(quantiles, every, node.param.span)

    def kernel(frame: Frame, groups: Groups) -> Float64Array:
        return np.stack(
            [
                quantile(quantiles, frame.values[rows].T, frame.present[rows].T)
                for rows in groups.members
            ]
        )

    return _grouped(frame, node, kernel)


KERNELS: Mapping[str, Aggregation] = {
    "avg": _avg,
    "count": _count,
    "group": _group,
    "max": _extreme(lambda value, held: value > held),
    "min": _extreme(lambda value, held: value < held),
    "stddev": _deviation,
    "stdvar": _variance,
    "sum": _sum,
}
