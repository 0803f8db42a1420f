"""The shapes a function can have, so that a row of the table says only what differs.

An implementation takes the call and the context and gives a value; these build one from a
kernel over windows or from arithmetic over a vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from engine.labels import METRIC_NAME
from engine.promql import selection, started, subquery
from engine.promql.errors import EvaluationError, InvalidParameter
from engine.promql.frame import Frame
from engine.promql.functions.extended import over_extended
from engine.promql.functions.native_windows import settle
from engine.promql.natives import refuse
from engine.promql.windows import Kernel, Windows, fold
from rules.promql.ast import Call, Expr, MatrixSelector, Subquery
from rules.promql.walk import unwrapped
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context, Partial
    from engine.series import Float64Array

Implementation: TypeAlias = "Callable[[Context, Call], Partial]"
Elementwise: TypeAlias = "Callable[..., Float64Array]"


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
    check: Callable[[Context, Call, Frame, tuple[Float64Array, ...]], None] | None = None,
) -> Implementation:
    """A function of a range vector.

    `matrix` and `params` say which arguments are the range vector and the scalars; `check` may
    add annotations once the result is known.
    """

    def implementation(context: Context, call: Call) -> Partial:
        scalars = tuple(context.scalar(call.args[index]) for index in params)
        argument = unwrapped(call.args[matrix])
        if isinstance(argument, MatrixSelector) and argument.selector.modifier is not None:
            frame = over_extended(context, call, argument)
            if check is not None:
                check(context, call, frame, scalars)
            return context.drop_names(frame, call.span)
        windows = windows_of(context, call.args[matrix])
        try:
            values, present = fold(windows, kernel, scalars)
        except InvalidParameter as error:
            raise EvaluationError(str(error), call.args[params[error.number]].span) from None
        except EvaluationError as error:
            raise EvaluationError(str(error), error.span or call.args[matrix].span) from None
        frame = Frame(windows.labels, values, present, windows.drops)
        if windows.started and call.func in started.FUNCTIONS:
            frame = _by_start_timestamps(context, call, windows, frame)
        frame = settle(context, call.func, call.args[matrix], windows, frame)
        if check is not None:
            check(context, call, frame, scalars)
        return frame if keeps_name else context.drop_names(frame, call.span)

    implementation.__doc__ = kernel.__doc__
    return implementation


def _by_start_timestamps(context: Context, call: Call, windows: Windows, frame: Frame) -> Frame:
    """The rows whose samples have start timestamps, computed by those."""
    values, present = frame.values.copy(), frame.present.copy()
    function = started.FUNCTIONS[call.func]
    for row in windows.started:
        found = [function(span) for span in started.spans(windows, row)]
        values[row.row] = [0.0 if one is None else one for one in found]
        present[row.row] = [one is not None for one in found]
        if call.func in started.CHECKED and row.overlaps.any():
            inside = [row.overlaps[s.lo + 1 : s.hi].any() for s in started.spans(windows, row)]
            if any(inside):
                context.notes.overlapping_start(row.labels.get(METRIC_NAME), call.args[0].span)
    return replace(frame, values=values, present=present)


def over_native_histograms(context: Context, call: Call) -> Partial:
    """A function that reads native histograms only: float samples give nothing."""
    refuse(context.frame(call.args[0]), call.func, call.func_span)
    return Frame.empty(context.steps)


def over_vector(function: Elementwise, *, params: tuple[int, ...] = ()) -> Implementation:
    """A function of each value of a vector (argument 0) and of scalars; the name goes."""

    def implementation(context: Context, call: Call) -> Partial:
        frame = context.frame(call.args[0]).without_histograms()
        scalars = tuple(
            context.scalar(call.args[index]) for index in params if index < len(call.args)
        )
        values = function(frame.values, *scalars)
        return context.drop_names(replace(frame, values=values, ordered=False), call.span)

    return implementation
