"""Arithmetic in place of a duration: `[5m * 2]`, `offset -(step() + 1m)`.

Its value depends on the query, so it is worked out once per query, before evaluation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rules.durations import LONGEST_MS
from rules.errors import StallwatchError
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Duration,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    Subquery,
    Unary,
    VectorSelector,
)
from rules.promql.walk import walk
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.source import Span

STEP_AND_RANGE: Final = frozenset({"step", "range"})
MIN_AND_MAX: Final = frozenset({"min_of", "max_of"})

_NANOSECONDS_PER_MS: Final = 1_000_000


class DurationExpressionError(StallwatchError):
    """A duration has no usable value in this query; `span` is the part at fault."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.span = span


def durations(node: Expr) -> Iterator[Duration]:
    """The durations of one node itself: range, step, offset."""
    match node:
        case VectorSelector(offset=Duration() as offset):
            yield offset
        case MatrixSelector(range=wide):
            yield wide
        case Subquery(range=wide, step=step, offset=offset):
            yield wide
            if step is not None:
                yield step
            if offset is not None:
                yield offset
        case _:
            pass


def resolve(expr: Expr, *, step_ms: int, range_ms: int) -> Expr:
    """The tree with a literal in place of every duration expression; the same tree if none is.

    `step_ms` and `range_ms` are the query's; both are 0 for an instant query, and so for a rule.
    Raises DurationExpressionError for a range or step that is not above 0, a division by zero
    and what no duration can hold.
    """
    nodes = list(walk(expr))
    if all(one.expr is None for node in nodes for one in durations(node)):
        return expr
    query = _Query(step_ms / 1000, range_ms / 1000)
    changed: dict[int, Expr] = {}
    # Parents come before children in `nodes`.
    for node in reversed(nodes):
        rebuilt = _rebuilt(node, query, changed)
        if rebuilt is not node:
            changed[id(node)] = rebuilt
    return changed.get(id(expr), expr)


def value_ms(duration: Duration, *, step_ms: int = 0, range_ms: int = 0, signed: bool) -> int:
    """What one duration is in a query, in milliseconds; `signed`: it may be 0 or less.

    Raises DurationExpressionError.
    """
    return _Query(step_ms / 1000, range_ms / 1000).milliseconds(duration, signed=signed)


def milliseconds_of(seconds: float) -> int:
    """Prometheus rounds a duration to nanoseconds, and drops what is below a millisecond."""
    nanoseconds = math.floor(abs(seconds) * 1e9 + 0.5)
    milliseconds = nanoseconds // _NANOSECONDS_PER_MS
    return -milliseconds if seconds < 0 else milliseconds


class _Query:
    def __init__(self, step: float, length: float) -> None:
        self.step = step
        self.length = length

    def literal(self, duration: Duration, *, signed: bool) -> Duration:
        if duration.expr is None:
            return duration
        return Duration(duration.span, self.milliseconds(duration, signed=signed))

    def milliseconds(self, duration: Duration, *, signed: bool) -> int:
        if duration.expr is None:
            return duration.milliseconds
        seconds = self._seconds(duration.expr)
        if seconds <= 0 and not signed:
            shown = f"{seconds:.15g}"
            message = f"the duration must be greater than 0; in this query it is {shown} seconds"
            raise DurationExpressionError(message, duration.span)
        if not abs(seconds) * 1000 <= LONGEST_MS:
            raise DurationExpressionError("the duration is out of range", duration.span)
        milliseconds = milliseconds_of(seconds)
        if not milliseconds and not signed:
            raise DurationExpressionError(
                "the duration is shorter than a millisecond", duration.span
            )
        return milliseconds

    def _seconds(self, expr: Expr) -> float:
        values: dict[int, float] = {}
        for node in reversed(list(walk(expr))):
            values[id(node)] = self._value(node, values)
        return values[id(expr)]

    def _value(self, node: Expr, values: dict[int, float]) -> float:
        match node:
            case NumberLiteral(value=value):
                return value
            case Paren(expr=inner):
                return values[id(inner)]
            case Unary(op=op, expr=inner):
                return -values[id(inner)] if op == "-" else values[id(inner)]
            case Binary():
                return _arithmetic(node, values[id(node.lhs)], values[id(node.rhs)])
            case Call(func="step"):
                return self.step
            case Call(func="range"):
                return self.length
            case Call(func=func, args=(first, second)):
                pair = values[id(first)], values[id(second)]
                if math.isnan(pair[0]) or math.isnan(pair[1]):
                    return math.nan
                return max(pair) if func == "max_of" else min(pair)
            case _:
                raise DurationExpressionError("this is no part of a duration", node.span)


def _arithmetic(node: Binary, lhs: float, rhs: float) -> float:
    match node.op:
        case "+":
            return lhs + rhs
        case "-":
            return lhs - rhs
        case "*":
            return lhs * rhs
        case "/" | "%" if rhs == 0:
            what = "division" if node.op == "/" else "modulo"
            raise DurationExpressionError(f"{what} by zero in a duration", node.op_span)
        case "/":
            return lhs / rhs
        case "%":
            return math.fmod(lhs, rhs) if math.isfinite(lhs) else math.nan
        case "^":
            return _power(lhs, rhs)
        case _:
            message = f'"{node.op}" is not allowed in a duration'
            raise DurationExpressionError(message, node.op_span)


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _rebuilt(node: Expr, query: _Query, changed: dict[int, Expr]) -> Expr:  # noqa: C901 - one case per kind of node
    """The node with its own durations literal and its changed children in place."""

    def child(expr: Expr) -> Expr:
        return changed.get(id(expr), expr)

    match node:
        case VectorSelector(offset=Duration(expr=written)) if written is not None:
            return replace(node, offset=_signed(node.offset, query))
        case MatrixSelector(selector=selector, range=wide):
            offset = _signed(selector.offset, query)
            if offset is selector.offset and wide.expr is None:
                return node
            length = query.literal(wide, signed=False)
            return replace(node, selector=replace(selector, offset=offset), range=length)
        case Subquery(expr=inner):
            if child(inner) is inner and all(one.expr is None for one in durations(node)):
                return node
            step = None if node.step is None else query.literal(node.step, signed=False)
            wide = query.literal(node.range, signed=False)
            offset = _signed(node.offset, query)
            return replace(node, expr=child(inner), range=wide, step=step, offset=offset)
        case Paren(expr=inner) | Unary(expr=inner) if child(inner) is not inner:
            return replace(node, expr=child(inner))
        case Binary(lhs=lhs, rhs=rhs) if child(lhs) is not lhs or child(rhs) is not rhs:
            return replace(node, lhs=child(lhs), rhs=child(rhs))
        case Aggregate(expr=inner, param=param):
            given = None if param is None else child(param)
            if child(inner) is inner and given is param:
                return node
            return replace(node, expr=child(inner), param=given)
        case Call(args=args) if any(child(arg) is not arg for arg in args):
            return replace(node, args=tuple(child(arg) for arg in args))
        case _:
            return node


def _signed(offset: Duration | None, query: _Query) -> Duration | None:
    return None if offset is None else query.literal(offset, signed=True)
