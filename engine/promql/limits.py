"""limitk and limit_ratio: some of the series of each group, whatever their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.grouping import Groups
from engine.promql.label_hash import label_hash
from engine.promql.ranking import by_labels, limits_of

if TYPE_CHECKING:
    from engine.promql.context import Context, Partial
    from engine.promql.frame import Frame
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Aggregate

LARGEST_HASH = float(2**64 - 1)


def limited(context: Context, node: Aggregate) -> Partial:
    """Either of them; histograms are elements like any other."""
    if node.op == "limitk":
        limits = limits_of(context, node)
        frame = context.frame(node.expr)
        kept = _first(frame, node, limits)
    else:
        ratios = _ratios(context, node)
        frame = context.frame(node.expr)
        kept = frame.present & _sampled(frame, ratios)
    return frame.with_values(frame.values, kept).without_absent()


def _first(frame: Frame, node: Aggregate, limits: Float64Array) -> BoolArray:
    """The first of each group by labels, as a selector orders them."""
    kept = np.zeros(frame.present.shape, dtype=np.bool_)
    for members in Groups.of(frame.labels, node).members:
        rows = by_labels(members, frame.labels)
        present = frame.present[rows]
        kept[rows] = present & (np.cumsum(present, axis=0) <= limits)
    return kept


def _ratios(context: Context, node: Aggregate) -> Float64Array:
    """The ratio at each step, [T], within [-1, 1]."""
    if node.param is None:
        raise EvaluationError("limit_ratio needs a parameter", node.span)
    ratios = context.scalar(node.param)
    if np.isnan(ratios).any():
        raise EvaluationError("Ratio value is NaN", node.param.span)
    for most, cap in ((ratios.max(initial=0.0), 1.0), (ratios.min(initial=0.0), -1.0)):
        if abs(most) > 1:
            context.notes.invalid_ratio(float(most), cap, node.param.span)
    return np.clip(ratios, -1.0, 1.0)


def _sampled(frame: Frame, ratios: Float64Array) -> BoolArray:
    """Which series are sampled, [S, T]: a series' hash says where in [0, 1] it stands.

    r from 0 on takes those below r, a negative one the others than 1 + r takes, so that r and r - 1
    share the series between them (promql/engine.go, AddRatioSample).
    """
    places = np.array([label_hash(one) / LARGEST_HASH for one in frame.labels])[:, None]
    sampled: BoolArray = np.where(ratios >= 0, places < ratios, places >= 1.0 + ratios)
    return sampled
