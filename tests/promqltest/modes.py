"""The ways in which each case is evaluated once more, and must give the same bits.

`range`: an instant case as the middle step of a range, as Prometheus tests itself. `fixed`: its
selectors fixed with `@` and evaluated at other times, likewise. `steps`: a range case as single
instants. `live`: as a rule, on the live window after flushes. `recording`: over a recording.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.errors import NEEDS_HISTOGRAMS, NeedsNativeHistograms
from engine.promql.steps import Until
from engine.promql.value import Axis, Result
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.rows import evaluate_parts
from rules.model import Expression
from rules.promql.ast import (
    Aggregate,
    At,
    Binary,
    Call,
    Expr,
    MatrixSelector,
    Paren,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.types import type_of
from rules.promql.walk import calls

from .comparison import Answer, MismatchError, answer, check_equal, check_notes

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.series import Queryable
    from rules.errors import StallwatchError
    from rules.source import Source

    from .data import Data
    from .script import Evaluation

MINUTE_MS = 60_000
MOST_STEPS = 12
Outcome: TypeAlias = "Answer | StallwatchError"

_CONTEXT = re.compile(r"(?:start|end|range|step)\(\)", re.IGNORECASE)
# Their results follow the evaluation's time even where no selector does.
_FOLLOW_THE_TIME = frozenset(
    {
        "days_in_month", "day_of_month", "day_of_week", "day_of_year", "hour", "minute", "month",
        "year", "predict_linear", "time", "timestamp", "info",
    }
)  # fmt: skip


class LeftOut(Exception):  # noqa: N818 - not an error: says why a mode cannot express a case
    """A mode has no way to say what a case asks."""


@dataclass(frozen=True)
class Question:
    """A case, parsed, with the data and what it gave as written."""

    case: Evaluation
    source: Source
    tree: Expr
    data: Data
    options: Options
    outcome: Outcome
    met: frozenset[str]

    @property
    def value_type(self) -> ValueType:
        """What the expression is."""
        return type_of(self.tree)

    @property
    def axis(self) -> Axis:
        """The case's own times."""
        return axis_of(self.case)

    def ask(
        self, axis: Axis, tree: Expr | None = None, queryable: Queryable | None = None
    ) -> Outcome:
        """Evaluate, in memory unless told otherwise."""
        used = self.data.memory if queryable is None else queryable
        return ask(self.tree if tree is None else tree, axis, used, self.options)


def axis_of(case: Evaluation) -> Axis:
    """An instant that sees later samples, or a range, as Prometheus' API evaluates it."""
    if case.step_ms is None:
        return Axis(np.array([case.start_ms], dtype=np.int64), 0)
    return Axis.span(case.start_ms, case.end_ms, case.step_ms)


def ask(tree: Expr, axis: Axis, queryable: Queryable, options: Options) -> Outcome:
    """A result as rows, or the error."""
    try:
        return answer(evaluate(tree, axis, queryable, options), axis)
    except EvaluationError as error:
        return error


def as_range(question: Question) -> None:
    """As the middle of three steps a minute apart."""
    case = question.case
    _require_instant(question)
    if _CONTEXT.search(case.expr):
        raise LeftOut("start(), end(), step() and range() mean something else in a range")
    axis = Axis.span(case.start_ms - MINUTE_MS, case.start_ms + MINUTE_MS, MINUTE_MS)
    _same_at(question, question.ask(axis), case.start_ms)


def fixed(question: Question) -> None:
    """With every selector fixed to the case's time, at other times."""
    case = question.case
    _require_instant(question)
    if _CONTEXT.search(case.expr):
        raise LeftOut("start(), end(), step() and range() mean something else in a range")
    if any(call.func in _FOLLOW_THE_TIME for call in calls(question.tree)):
        raise LeftOut("a function that follows the evaluation's time")
    time = case.start_ms
    times = {-10 * time, 0, time // 5, time, 10 * time} if time else {-1000, 0, 1000}
    axis = Axis(np.array(sorted(times), dtype=np.int64), MINUTE_MS)
    found = question.ask(axis, pinned(question.tree, time))
    if isinstance(question.outcome, Answer) and isinstance(found, Answer):
        wanted = question.outcome.at(time)
        for other in sorted(times):
            moved = {labels: {other: points[time]} for labels, points in wanted.rows.items()}
            check_equal(replace(wanted, rows=moved), found.at(other))
        return
    _same_at(question, found, time)


def stepwise(question: Question) -> None:
    """A range case's steps as instants of their own."""
    case = question.case
    if case.step_ms is None:
        raise LeftOut("an instant case is a single step")
    if _CONTEXT.search(case.expr):
        raise LeftOut("start(), end(), step() and range() mean something else in a range")
    if not isinstance(question.outcome, Answer):
        raise LeftOut("an error belongs to the whole range")
    times = question.axis.times_ms
    for time in times[:: max(1, len(times) // MOST_STEPS)].tolist():
        found = question.ask(Axis(np.array([time], dtype=np.int64), 0))
        _same_at(question, found, time)


def live(question: Question) -> None:
    """As a rule on what flushes have brought; it sees nothing later than its own time."""
    if question.value_type in {ValueType.STRING, ValueType.MATRIX}:
        raise LeftOut("a rule's result is a vector or a scalar")
    _require_flushable(question)
    memory = question.data.memory
    found = _as_rule(question, replace(question.axis, rule=True))
    times = question.axis.times_ms.tolist()
    for index in range(0, len(times), max(1, len(times) // MOST_STEPS)):
        axis = Axis(question.axis.times_ms[index : index + 1], 0)
        _same(question.ask(axis, queryable=Until(memory, times[index])), found[index])


def _as_rule(question: Question, axis: Axis) -> list[Outcome]:
    """What a rule gives at each time."""
    text = question.case.expr
    offsets = tuple(range(len(text) + 1))
    expression = Expression(text, question.tree, question.source, offsets)
    options = GroupOptions(interval_ms=question.options.default_step_ms, engine=question.options)
    found: list[Outcome] = []
    for part in evaluate_parts(expression, axis.times_ms, 0, question.data.store, options):
        if part.rows is None:
            found.append(EvaluationError(part.error))
            continue
        axis = Axis(part.times_ms, axis.step_ms)
        whole = answer(Result(part.rows, part.warnings), axis)
        found += [
            replace(whole.at(time), warnings=whole.warnings) for time in axis.times_ms.tolist()
        ]
    return found


def recorded(question: Question) -> None:
    """The same query over a recording of the samples."""
    _require_flushable(question)
    found = question.ask(question.axis, queryable=question.data.recording)
    _same(question.outcome, found)
    if isinstance(question.outcome, Answer) and isinstance(found, Answer):
        check_notes(question.outcome, found)


MODES: dict[str, Callable[[Question], None]] = {
    "range": as_range,
    "fixed": fixed,
    "steps": stepwise,
    "live": live,
    "recording": recorded,
}


def _require_instant(question: Question) -> None:
    case = question.case
    if not case.is_instant:
        raise LeftOut("a range case is a range already")
    if question.value_type is ValueType.STRING:
        raise LeftOut("a range has no strings")
    if question.value_type is ValueType.MATRIX or case.matrix_ms is not None:
        raise LeftOut("a range has no range vectors")


def _require_flushable(question: Question) -> None:
    if question.met:
        raise LeftOut(f"flushes have no {' and no '.join(sorted(question.met))}")


def _same_at(question: Question, found: Outcome, time_ms: int) -> None:
    wanted = question.outcome
    one = wanted.at(time_ms) if isinstance(wanted, Answer) else wanted
    other = found.at(time_ms) if isinstance(found, Answer) else found
    _same(one, other)


def _same(wanted: Outcome, found: Outcome) -> None:
    """Equal bits, or an error on both sides."""
    if isinstance(wanted, Answer) and isinstance(found, Answer):
        check_equal(replace(wanted, is_scalar=False), replace(found, is_scalar=False))
    elif isinstance(wanted, Answer):
        if NEEDS_HISTOGRAMS in str(found):
            raise NeedsNativeHistograms(str(found).removesuffix(NEEDS_HISTOGRAMS).strip())
        raise MismatchError("a result", f"error: {found}")
    elif isinstance(found, Answer):
        raise MismatchError(f"error: {wanted}", "a result")


def pinned(node: Expr, time_ms: int) -> Expr:
    """The tree with `@ time` on every outermost selector or subquery that has no `@`."""
    match node:
        case VectorSelector(at=None, span=span) | Subquery(at=None, span=span):
            return replace(node, at=At(span, time_ms))
        case MatrixSelector(selector=selector):
            inner = pinned(selector, time_ms)
            return replace(node, selector=inner) if isinstance(inner, VectorSelector) else node
        case Paren(expr=expr) | Unary(expr=expr):
            return replace(node, expr=pinned(expr, time_ms))
        case Binary(lhs=lhs, rhs=rhs):
            return replace(node, lhs=pinned(lhs, time_ms), rhs=pinned(rhs, time_ms))
        case Aggregate(expr=expr, param=param):
            fixed_param = None if param is None else pinned(param, time_ms)
            return replace(node, expr=pinned(expr, time_ms), param=fixed_param)
        case Call(args=args):
            return replace(node, args=tuple(pinned(one, time_ms) for one in args))
        case _:
            return node
