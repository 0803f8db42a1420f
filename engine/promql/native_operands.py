"""Binary operators where an operand is a native histogram.

A histogram can be scaled, and stays one. Two of them can be added and compared, which needs them.
Anything else has no result, and an info says so. Source: promql/engine.go, vectorElemBinop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.promql.errors import NeedsNativeHistograms
from rules.promql.tokens import TRIM_OPERATORS
from rules.slotted import replace

if TYPE_CHECKING:
    from engine.promql.context import Context
    from engine.promql.frame import Frame
    from engine.series import BoolArray
    from rules.promql.ast import Binary

WITH_A_HISTOGRAM = ("+", "-", "==", "!=")


def with_scalar(context: Context, node: Binary, frame: Frame, *, swapped: bool) -> Frame:
    """A vector's elements that the operator takes with a scalar; `swapped`: that is on the left."""
    native = frame.native()
    if native is None:
        return frame if frame.histograms is None else replace(frame, histograms=None)
    if node.op == "*" or (node.op == "/" and not swapped):
        return frame
    if node.op in TRIM_OPERATORS and not swapped:
        raise NeedsNativeHistograms(f"the operator {node.op}", node.op_span)
    kinds = ("float", "histogram") if swapped else ("histogram", "float")
    context.notes.incompatible_types(kinds[0], node.op, kinds[1], node.span)
    return frame.without_histograms()


def of_pairs(
    context: Context, node: Binary, left: BoolArray, right: BoolArray, both: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """Which pairs have a result, and which results are histograms, [P, T].

    `left`, `right`: where that side is a histogram. `both`: where both sides are present.
    """
    if (left & right & both).any():
        if node.op in WITH_A_HISTOGRAM:
            raise NeedsNativeHistograms(f"the operator {node.op}", node.op_span)
        context.notes.incompatible_types("histogram", node.op, "histogram", node.span)
    scaled = (left ^ right) if node.op == "*" else (left & ~right)
    if node.op in TRIM_OPERATORS and (scaled & both).any():
        raise NeedsNativeHistograms(f"the operator {node.op}", node.op_span)
    kept = (scaled & both) if node.op in ("*", "/") else (both & False)
    for kinds, where in (
        (("float", "histogram"), ~left & right & both & ~kept),
        (("histogram", "float"), left & ~right & both & ~kept),
    ):
        if where.any():
            context.notes.incompatible_types(kinds[0], node.op, kinds[1], node.span)
    return both & (~(left | right) | kept), kept
