"""absent and absent_over_time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.promql.frame import Frame
from engine.promql.functions.native_windows import settle
from engine.promql.functions.over_time import present_over_time
from engine.promql.functions.shapes import windows_of
from engine.promql.windows import fold
from rules.promql.ast import Call, Expr, MatrixSelector, VectorSelector
from rules.promql.walk import unwrapped

if TYPE_CHECKING:
    from engine.promql.context import Context, Partial
    from engine.series import BoolArray


def absent(context: Context, call: Call) -> Partial:
    """1 where the vector is empty, with the labels its selector pins down."""
    frame = context.frame(call.args[0])
    return _where(frame.present, call.args[0])


def absent_over_time(context: Context, call: Call) -> Partial:
    """1 where the range vector is empty, with the labels its selector pins down."""
    windows = windows_of(context, call.args[0])
    frame = Frame(windows.labels, *fold(windows, present_over_time), windows.drops)
    present = settle(context, "present_over_time", call.args[0], windows, frame).present
    return _where(present, call.args[0])


def _where(present: BoolArray, expr: Expr) -> Frame:
    missing: BoolArray = np.logical_not(present.any(axis=0))
    return Frame((_pinned(expr),), np.ones((1, missing.size)), missing[None, :], (False,))


def _pinned(expr: Expr) -> Labels:
    """The labels that a selector's `=` matchers fix, less those that it names twice."""
    expr = unwrapped(expr)
    selector = expr.selector if isinstance(expr, MatrixSelector) else expr
    if not isinstance(selector, VectorSelector):
        return Labels()
    pinned: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in selector.matchers:
        if matcher.label == METRIC_NAME:
            continue
        if matcher.op == "=" and matcher.label not in seen:
            pinned[matcher.label] = matcher.value
            seen.add(matcher.label)
        else:
            pinned.pop(matcher.label, None)
    return Labels(pinned)
