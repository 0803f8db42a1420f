"""The shapes a function can have, so that a row of the table says only what differs.

An implementation takes the call and the context and gives a value; these build one from a
kernel over windows or from arithmetic over a vector.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from engine.promql import selection, subquery
from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.windows import Kernel, Windows, fold
from rules.promql.ast import Call, Expr, MatrixSelector, Paren, Subquery

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context, Partial
    from engine.series import Float64Array

Implementation: TypeAlias = "Callable[[Context, Call], Partial]"
Elementwise: TypeAlias = "Callable[..., Float64Array]"


def unwrapped(expr: Expr) -> Expr:
    """The expression inside any parentheses."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


def windows_of(context: Context, expr: Expr) -> Windows:
    """A range vector: a matrix selector or a subquery."""
    match unwrapped(expr):
        case MatrixSelector() as matrix:
            return selection.windows(context, matrix)
        case Subquery() as query:
            return subquery.windows(context, query)
        case other:
            raise EvaluationError("expected a range vector here", other.span)


def over_windows(
    kernel: Kernel,
    *,
    matrix: int = 0,
    params: tuple[int, ...] = (),
    keeps_name: bool = False,
    check: Callable[[Context, Call, Windows, Frame, tuple[Float64Array, ...]], None] | None = None,
) -> Implementation:
    """A function of a range vector.

    `matrix` and `params` say which arguments are the range vector and the scalars; `check` may
    add annotations once the result is known.
    """

    def implementation(context: Context, call: Call) -> Partial:
        scalars = tuple(context.scalar(call.args[index]) for index in params)
        windows = windows_of(context, call.args[matrix])
        values, present = fold(windows, kernel, scalars)
        frame = Frame(windows.labels, values, present, windows.drops)
        if check is not None:
            check(context, call, windows, frame, scalars)
        return frame if keeps_name else context.drop_names(frame, call.span)

    return implementation


def over_native_histograms(context: Context, call: Call) -> Partial:
    """A function that reads native histograms only: float samples give nothing."""
    context.frame(call.args[0])
    return Frame.empty(context.steps)


def over_vector(function: Elementwise, *, params: tuple[int, ...] = ()) -> Implementation:
    """A function of each value of a vector (argument 0) and of scalars; the name goes."""

    def implementation(context: Context, call: Call) -> Partial:
        frame = context.frame(call.args[0])
        scalars = tuple(
            context.scalar(call.args[index]) for index in params if index < len(call.args)
        )
        values = function(frame.values, *scalars)
        return context.drop_names(replace(frame, values=values, ordered=False), call.span)

    return implementation
