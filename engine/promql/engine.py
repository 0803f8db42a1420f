"""Evaluation of a PromQL expression over a whole axis of times at once.

The meaning of every expression is Prometheus 3's; the shape is not: each node is evaluated once,
for all steps, on arrays [series, step] with a mask for presence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.baselines.folds import Folds
from engine.promql import selection
from engine.promql.aggregators import aggregate
from engine.promql.annotations import Annotations
from engine.promql.binary import binary, unary
from engine.promql.blocks import Execution, Plan, is_held, planned, stacked
from engine.promql.context import Context, Options, Partial
from engine.promql.errors import EvaluationError, NeedsNativeHistograms
from engine.promql.frame import Frame
from engine.promql.functions.extended import smoothed_instant
from engine.promql.functions.shapes import windows_of
from engine.promql.functions.table import IMPLEMENTATIONS
from engine.promql.naming import finish, unnamed
from engine.promql.natives import refuse
from engine.promql.sharing import Sharing
from engine.promql.steps import evaluate_by_step, sees_the_future
from engine.promql.stretches import Stretches
from engine.promql.tall import by_levels, shape_of
from engine.promql.value import Axis, Matrix, Result, String, Value
from engine.series import Series
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorSelector,
)
from rules.promql.duration_expressions import DurationExpressionError, resolve
from rules.promql.walk import unwrapped
from rules.slotted import replace

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.series import Queryable

__all__ = ["EvaluationError", "Options", "evaluate"]

DEFAULT_OPTIONS = Options()


def evaluate(
    expr: Expr, axis: Axis, queryable: Queryable, options: Options = DEFAULT_OPTIONS
) -> Result:
    """Evaluate an expression at every time of an axis.

    A scalar gives Scalar, an instant vector Vector, a string String; a range vector, at a single
    time only, Matrix. On a rule's axis each step is an instant query of its own that sees no
    sample later than itself.

    Raises EvaluationError for what Prometheus refuses (many-to-many matches, equal label sets, …)
    and for what would need more than `options.max_samples`.
    """
    times = np.ascontiguousarray(axis.times_ms, dtype=np.int64)
    first, last = (int(times[0]), int(times[-1])) if times.size else (0, 0)
    shape = shape_of(expr)
    if shape.arithmetic:
        expr = _with_durations(expr, axis, last - first)
        shape = shape_of(expr)
    if shape.remembers and options.folds is None:
        options = replace(options, folds=Folds())
    if axis.rule and sees_the_future(expr, first):
        alone = replace(options, shared=None)
        return evaluate_by_step(evaluate, expr, axis, queryable, alone)
    if options.shared is None and times.size > 1:
        options = replace(options, shared=Sharing((expr,)))
    notes = Annotations(options.source)
    step_ms = 0 if axis.rule else axis.step_ms
    dispatch = by_levels(shape, _evaluate, _evaluate_node) if shape.high else _evaluate
    context = Context(
        times,
        first,
        last,
        step_ms,
        queryable,
        options,
        notes,
        dispatch,
        _evaluate_node,
        rule=axis.rule,
    )
    try:
        with np.errstate(all="ignore"):
            value = _finished(context, expr)
    except RecursionError:
        message = "subqueries are nested too deep to be evaluated"
        raise EvaluationError(message, expr.span) from None
    return Result(value, notes.warnings, notes.infos)


def _with_durations(expr: Expr, axis: Axis, range_ms: int) -> Expr:
    """The expression with every duration literal; a rule's steps are instant queries."""
    step_ms, range_ms = (0, 0) if axis.rule else (axis.step_ms, range_ms)
    try:
        return resolve(expr, step_ms=step_ms, range_ms=range_ms)
    except DurationExpressionError as error:
        raise EvaluationError(str(error), error.span) from None


def _finished(context: Context, expr: Expr) -> Value:
    if isinstance(unwrapped(expr), MatrixSelector | Subquery):
        return _matrix(context, expr)
    value = context.evaluate(expr)
    if not isinstance(value, Frame):
        return value
    return finish(refuse(value, "the result", expr.span)).vector()


def _evaluate(expr: Expr, context: Context) -> Partial:
    """Any expression, at all the context's times: what is row-wise by blocks."""
    if not isinstance(expr, VectorSelector | Call | Unary | Binary | Aggregate):
        return _evaluate_node(expr, context)
    how, shared = planned(context, expr), context.options.shared
    if shared is not None and shared.has(expr) and (how is None or is_held(context, how)):
        return shared.evaluated(expr, context, lambda inner: _computed(expr, how, inner))
    return _computed(expr, how, context)


def _computed(expr: Expr, how: Plan | None, context: Context) -> Partial:
    if how is None and (stretches := Stretches.of(context, expr)) is not None:
        return stretches.evaluated(context.options.workers)
    if how is None:
        return _evaluate_node(expr, context)
    return stacked(Execution.of(context, how))


def _evaluate_node(expr: Expr, context: Context) -> Partial:
    """One node, for all the context's series at once."""
    match expr:
        case NumberLiteral(value=number):
            return context.constant(number)
        case StringLiteral(value=text):
            return String(text)
        case Paren(expr=inner):
            return context.evaluate(inner)
        case VectorSelector(modifier="smoothed"):
            return smoothed_instant(context, expr)
        case VectorSelector():
            return selection.instant(context, expr, timed=False).frame
        case Unary():
            return unary(context, expr)
        case Binary():
            return binary(context, expr)
        case Aggregate():
            return aggregate(context, expr)
        case Call():
            return _call(context, expr)
        case _:
            raise EvaluationError(
                "a range vector is only allowed as a function's argument", expr.span
            )


def _call(context: Context, call: Call) -> Partial:
    implementation = IMPLEMENTATIONS.get(call.func)
    if implementation is None:
        raise EvaluationError(f"the function {call.func} is not supported", call.func_span)
    return implementation(context, call)


def _matrix(context: Context, expr: Expr) -> Matrix:
    """The raw samples of a range vector, at a single time."""
    if context.steps != 1:
        raise EvaluationError(
            'invalid expression type "range vector" for range query, must be Scalar or instant '
            "Vector",
            expr.span,
        )
    windows = windows_of(context, expr)
    for one in windows.natives:
        first, last = int(windows.end_ms[0]) - windows.range_ms, int(windows.end_ms[0])
        inside = (one.times_ms > first) & (one.times_ms <= last)
        if (one.native & inside).any():
            raise NeedsNativeHistograms("the result", expr.span)

    def named(row: int) -> Labels:
        return unnamed(windows.labels[row]) if windows.drops[row] else windows.labels[row]

    found: list[tuple[int, Series]] = []
    for group in windows.groups:
        (lo,), (hi,) = windows.bounds(group.timestamps_ms)
        if lo == hi:
            continue
        times = group.timestamps_ms[lo:hi]
        found.extend(
            (row, Series(named(row), times, values[lo:hi]))
            for row, values in zip(group.rows.tolist(), group.values, strict=True)
        )
    return Matrix(tuple(series for _, series in sorted(found, key=lambda pair: pair[0])))
