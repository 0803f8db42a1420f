"""Constant parameters of our statistics with which no evaluation can succeed.

The evaluator refuses the same values where a parameter is known only then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    NumberLiteral,
    Paren,
    Subquery,
    Unary,
)
from rules.promql.duration_expressions import DurationExpressionError, value_ms
from rules.promql.functions import AGGREGATORS
from rules.promql.tokens import COMPARISONS, SET_OPERATORS
from rules.promql.walk import unwrapped, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.promql.ast import Duration, Expr
    from rules.source import Span

# The fewest elements that are a group of peers, the fewest seasons, and the most samples in pairs.
LEAST_GROUP: Final = 3
LEAST_SEASONS: Final = 3
# More seasons than these are a slip, and each costs as much memory as the result.
MOST_SEASONS: Final = 1000
MOST_SAMPLES: Final = 1000

_SOME_AGGREGATES: Final = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})


class Refused(NamedTuple):
    """A part of an expression that no evaluation takes."""

    span: Span
    message: str
    hint: str


def refused(node: Expr) -> Iterator[Refused]:
    """What is wrong with the parameters of one node, if it is one of our statistics."""
    match node:
        case Aggregate(op=op, param=param) if param is not None and AGGREGATORS[op].ours:
            yield from _group(op, param)
        case Call(func="seasonal_zscore", args=(matrix, period)):
            yield from _period(unwrapped(matrix), period)
        case Call(func="ewma_over_time" | "ewma_zscore", args=(_, halflife)):
            yield from _halflife(halflife)
        case Call(func=func, args=(_, *factors)) if func.startswith("holt_"):
            for name, short, factor in zip(("smoothing", "trend"), "st", factors, strict=True):
                yield from _factor(f"{name} factor", f"{short}f", factor)
        case Call(func="trend_over_time" | "trend_pvalue_over_time", args=(matrix,)):
            yield from _pairs(node.func, unwrapped(matrix))
        case _:
            pass


def _group(op: str, param: Expr) -> Iterator[Refused]:
    least = constant(param)
    if least is None or (least >= LEAST_GROUP and least.is_integer()):
        return
    if least > LEAST_GROUP:
        message = f"{op} needs groups of a whole number of elements, not of {least:g}"
    else:
        message = (
            f"{op} needs groups of {LEAST_GROUP} elements at least, not of {least:g}: of two "
            "nobody knows which one is the odd one out"
        )
    yield Refused(param.span, message, f"write {LEAST_GROUP} or more, or leave it out")


def _period(matrix: Expr, param: Expr) -> Iterator[Refused]:
    period = constant(param)
    length = _length_s(matrix)
    if period is None or length is None:
        return
    longest = length / LEAST_SEASONS
    shortest = max(0.001, length / MOST_SEASONS)
    if shortest <= period <= longest:
        return
    message = (
        f"invalid period. Expected: at least a thousandth and at most a third of the window, "
        f"{shortest:g} to {longest:g} seconds, got: {period:g}"
    )
    if period > longest and math.isfinite(period):
        hint = f"make the window longer, more than {LEAST_SEASONS * period:g}s, or the period less"
    else:
        hint = "write the time after which values come again, in seconds or as in 1d"
    yield Refused(param.span, message, hint)


def _halflife(param: Expr) -> Iterator[Refused]:
    halflife = constant(param)
    if halflife is not None and not halflife > 0:
        message = f"invalid half-life. Expected: more than 0 seconds, got: {halflife:g}"
        yield Refused(param.span, message, "write the time in which a weight halves, as in 5m")


def _factor(name: str, short: str, param: Expr) -> Iterator[Refused]:
    factor = constant(param)
    if factor is not None and not 0 < factor < 1:
        message = f"invalid {name}. Expected: 0 < {short} < 1, got: {factor:g}"
        yield Refused(param.span, message, "write how much the newest sample counts, as in 0.3")


def _pairs(func: str, matrix: Expr) -> Iterator[Refused]:
    if not isinstance(matrix, Subquery) or matrix.step is None or _may_be_missing(matrix.expr):
        return
    length, step = _seconds(matrix.range), _seconds(matrix.step)
    if length is None or step is None or length // step <= MOST_SAMPLES:
        return
    message = (
        f"{func} looks at pairs of samples, and this window has {int(length // step):,} of them: "
        f"at most {MOST_SAMPLES:,}"
    )
    hint = f"make the step {math.ceil(length / MOST_SAMPLES):g}s or more, or the window shorter"
    yield Refused(matrix.span, message, hint)


def _may_be_missing(expr: Expr) -> bool:
    """Whether an operator lets through only some of what is there."""
    for node in walk(expr):
        match node:
            case Binary(op=op, return_bool=False) if op in COMPARISONS or op in SET_OPERATORS:
                return True
            case Aggregate(op=op) if op in _SOME_AGGREGATES:
                return True
            case _:
                pass
    return False


def _length_s(matrix: Expr) -> float | None:
    return _seconds(matrix.range) if isinstance(matrix, MatrixSelector | Subquery) else None


def _seconds(duration: Duration) -> float | None:
    """What a duration is in a rule, None if it has no value there."""
    try:
        return value_ms(duration, signed=False) / 1000
    except DurationExpressionError:
        return None


def constant(expr: Expr) -> float | None:
    """The number that a scalar always is, None if it is not made of numbers alone."""
    known: dict[int, float | None] = {}
    for node in reversed(list(walk(expr))):
        known[id(node)] = _value(node, known)
    return known[id(expr)]


def _value(node: Expr, known: dict[int, float | None]) -> float | None:
    match node:
        case NumberLiteral(value=value):
            return value
        case Paren(expr=inner):
            return known[id(inner)]
        case Unary(op=op, expr=inner):
            value_of = known[id(inner)]
            return -value_of if op == "-" and value_of is not None else value_of
        case Binary(op=op, lhs=lhs, rhs=rhs):
            left, right = known[id(lhs)], known[id(rhs)]
            return None if left is None or right is None else _arithmetic(op, left, right)
        case _:
            return None


def _arithmetic(op: str, left: float, right: float) -> float | None:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right != 0:
            return left / right
        case "/":
            unsigned = math.nan if left == 0 or math.isnan(left) else math.inf
            return unsigned * math.copysign(1, left) * math.copysign(1, right)
        case _:
            return None
