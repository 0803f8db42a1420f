"""Binary and unary operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.matching import combine, match
from engine.promql.native_operands import with_scalar
from engine.promql.operators import ARITHMETIC, COMPARISONS, SET_OPERATORS
from engine.promql.value import Scalar
from rules.promql.tokens import TRIM_OPERATORS
from rules.slotted import replace

if TYPE_CHECKING:
    from engine.promql.context import Context, Partial
    from engine.series import Float64Array
    from rules.promql.ast import Binary, Unary


def unary(context: Context, node: Unary) -> Partial:
    """`-x` and `+x`; a negated vector loses its name."""
    value = context.evaluate(node.expr)
    if node.op == "+":
        return value
    if isinstance(value, Scalar):
        return Scalar(-value.values)
    if isinstance(value, Frame):
        return context.drop_names(value.with_values(-value.values), node.span)
    raise EvaluationError("a string has no sign", node.span)


def binary(context: Context, node: Binary) -> Partial:
    """Any binary operator between scalars and vectors."""
    lhs, rhs = context.evaluate(node.lhs), context.evaluate(node.rhs)
    match (lhs, rhs):
        case Scalar(), Scalar():
            return Scalar(_of_scalars(node, lhs.values, rhs.values))
        case Frame(), Scalar():
            return _with_scalar(context, node, lhs, rhs.values, swapped=False)
        case Scalar(), Frame():
            return _with_scalar(context, node, rhs, lhs.values, swapped=True)
        case Frame(), Frame():
            return _of_vectors(context, node, lhs, rhs)
        case _:
            raise EvaluationError(f"operator {node.op} does not take strings", node.op_span)


def _of_scalars(node: Binary, lhs: Float64Array, rhs: Float64Array) -> Float64Array:
    if node.op in COMPARISONS:
        return COMPARISONS[node.op](lhs, rhs).astype(np.float64)
    if node.op not in ARITHMETIC:
        message = f'operator "{node.op}" not allowed for scalar operations'
        raise EvaluationError(message, node.op_span)
    return ARITHMETIC[node.op](lhs, rhs)


def _with_scalar(
    context: Context, node: Binary, frame: Frame, scalar: Float64Array, *, swapped: bool
) -> Frame:
    if frame.histograms is not None:
        frame = with_scalar(context, node, frame, swapped=swapped)
    if node.op in TRIM_OPERATORS:
        if frame.present.any():
            context.notes.incompatible_types("float", node.op, "float", node.span)
        return Frame.empty(frame.steps)
    lhs, rhs = (scalar, frame.values) if swapped else (frame.values, scalar)
    if node.op in ARITHMETIC:
        changed = frame.with_values(ARITHMETIC[node.op](lhs, rhs))
        return context.drop_names(changed, node.span)
    holds = COMPARISONS[node.op](lhs, rhs)
    if node.return_bool:
        return context.drop_names(frame.with_values(holds.astype(np.float64)), node.span)
    # A filter keeps the vector's value, on whichever side it stands.
    return replace(frame, present=frame.present & holds)


def _of_vectors(context: Context, node: Binary, lhs: Frame, rhs: Frame) -> Frame:
    if node.op in SET_OPERATORS:
        return combine(node, lhs, rhs)
    matched = match(context, node, lhs, rhs)
    if matched.drop_names:
        return context.drop_names(matched.frame, node.span)
    return matched.frame.merged(node.span)
