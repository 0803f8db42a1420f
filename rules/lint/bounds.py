"""What values an expression can have, as an interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rules.lint.intervals import ANYTHING, NOT_NEGATIVE, Interval
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    NumberLiteral,
    Paren,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.tokens import COMPARISONS, SET_OPERATORS
from rules.promql.types import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rules.promql.ast import Expr

    IntervalOf = Callable[[Expr], Interval]

# Metrics whose range is part of their meaning (docs/metrics.md), and Prometheus' own.
_METRICS: Final[Mapping[str, Interval]] = {
    "ALERTS": Interval(1, 1),
    "comm_wait_ratio": Interval(0, 1),
    "gpu_utilization": Interval(0, 100),
    "step_comm_wait_ratio": Interval(0, 1),
    "up": Interval(0, 1),
}
_COUNTER_SUFFIXES: Final = ("_total", "_bucket", "_count")
_FUNCTIONS: Final[Mapping[str, Interval]] = {
    **dict.fromkeys(("absent", "absent_over_time", "present_over_time"), Interval(1, 1)),
    **dict.fromkeys(
        (
            "abs", "changes", "resets", "sqrt", "exp", "time", "timestamp",
            "stddev_over_time", "stdvar_over_time", "mad_over_time", "histogram_count",
            "histogram_stddev", "histogram_stdvar",
        ),
        NOT_NEGATIVE,
    ),
    "count_over_time": Interval(1),
    "anomaly_score": Interval(0, 1),
    "histogram_fraction": Interval(0, 1),
    "pi": Interval(math.pi, math.pi),
    "acos": Interval(0, math.pi),
    **dict.fromkeys(("sin", "cos", "tanh", "sgn"), Interval(-1, 1)),
    **dict.fromkeys(("asin", "atan"), Interval(-math.pi / 2, math.pi / 2)),
    "cosh": Interval(1),
    "day_of_month": Interval(1, 31),
    "day_of_week": Interval(0, 6),
    "day_of_year": Interval(1, 366),
    "days_in_month": Interval(28, 31),
    "hour": Interval(0, 23),
    "minute": Interval(0, 59),
    "month": Interval(1, 12),
}  # fmt: skip
# The values of the argument, or some between them.
_KEEPS_VALUES: Final = frozenset({
    "avg_over_time", "first_over_time", "label_join", "label_replace", "last_over_time",
    "max_over_time", "min_over_time", "scalar", "sort", "sort_by_label", "sort_by_label_desc",
    "sort_desc", "vector", "info",
})  # fmt: skip
_AGGREGATES: Final[Mapping[str, Interval]] = {
    "count": Interval(1),
    "count_values": Interval(1),
    "group": Interval(1, 1),
    "stddev": NOT_NEGATIVE,
    "stdvar": NOT_NEGATIVE,
    "straggler_cost": NOT_NEGATIVE,
    "straggler_score": ANYTHING,
    "straggler_slowdown": ANYTHING,
}


def bounds(node: Expr, of: IntervalOf) -> Interval:
    """The values of a node, `of` giving those of its children."""
    match node:
        case NumberLiteral(value=value):
            return ANYTHING if math.isnan(value) else Interval(value, value)
        case VectorSelector(name=name):
            return _of_metric(name or "")
        case MatrixSelector(selector=selector):
            return of(selector)
        case Subquery(expr=inner) | Paren(expr=inner):
            return of(inner)
        case Unary(op=op, expr=inner):
            return -of(inner) if op == "-" else of(inner)
        case Aggregate(op=op, expr=inner):
            return _AGGREGATES.get(op) or _aggregated(op, of(inner))
        case Call():
            return _call(node, of)
        case Binary():
            return _binary(node, of)
        case _:
            return ANYTHING


def _of_metric(name: str) -> Interval:
    known = _METRICS.get(name)
    if known is not None:
        return known
    return NOT_NEGATIVE if name.endswith(_COUNTER_SUFFIXES) else ANYTHING


def _aggregated(op: str, inner: Interval) -> Interval:
    if op == "sum":
        # Of one element at least: a sum of what is not negative is no less than the least of it.
        low = inner.low if inner.low >= 0 else -math.inf
        return Interval(low, inner.high if inner.high <= 0 else math.inf)
    return ANYTHING if op == "quantile" else inner


def _call(node: Call, of: IntervalOf) -> Interval:
    name, args = node.func, node.args
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in _KEEPS_VALUES and args:
        return of(args[0])
    if name in {"ceil", "floor"}:
        return of(args[0]).monotonic(math.ceil if name == "ceil" else math.floor)
    if name == "clamp":
        low, high = of(args[1]), of(args[2])
        return of(args[0]).meet(Interval(low.low, high.high))
    if name == "clamp_min":
        inner, least = of(args[0]), of(args[1])
        return Interval(max(inner.low, least.low), max(inner.high, least.high))
    if name == "clamp_max":
        inner, most = of(args[0]), of(args[1])
        return Interval(min(inner.low, most.low), min(inner.high, most.high))
    if name in {"rate", "increase", "irate"}:
        # A fall is taken for a restart from 0, so what never is negative never falls.
        return NOT_NEGATIVE if of(args[0]).low >= 0 else ANYTHING
    if name == "sum_over_time":
        return _aggregated("sum", of(args[0]))
    return ANYTHING


def _binary(node: Binary, of: IntervalOf) -> Interval:
    lhs, rhs = of(node.lhs), of(node.rhs)
    if node.op in SET_OPERATORS:
        return lhs.hull(rhs) if node.op == "or" else lhs
    if node.op in COMPARISONS:
        return Interval(0, 1) if node.return_bool else _filtered(node, lhs, rhs)
    match node.op:
        case "+":
            return lhs + rhs
        case "-":
            return lhs - rhs
        case "*":
            return lhs * rhs
        case "/":
            return lhs / rhs
        case "atan2":
            return Interval(-math.pi, math.pi)
        case "%":
            most = max(abs(rhs.low), abs(rhs.high))
            return Interval(0 if lhs.low >= 0 else -most, most)
        case "^" if rhs.point and rhs.low % 2 == 0:
            return NOT_NEGATIVE
        case _:
            return ANYTHING


def _filtered(node: Binary, lhs: Interval, rhs: Interval) -> Interval:
    """What a filter lets through. Its values are the vector's, on whichever side that stands."""
    op = node.op
    # Of a chain `a > 0 > 1 ...` the left side is long to look at, the right one is not.
    if node.matching is None and type_of(node.rhs) is not ValueType.SCALAR:
        lhs, rhs = rhs, lhs
        op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)  # type: ignore[assignment]  # all are operators
    match op:
        case ">" | ">=":
            return lhs.meet(Interval(low=rhs.low))
        case "<" | "<=":
            return lhs.meet(Interval(high=rhs.high))
        case "==":
            return lhs.meet(rhs)
        case _:
            return lhs


def always(op: str, lhs: Interval, rhs: Interval) -> bool:
    """Whether `lhs op rhs` holds for all values that are no NaN."""
    match op:
        case ">":
            return lhs.low > rhs.high
        case ">=":
            return lhs.low >= rhs.high
        case "<":
            return lhs.high < rhs.low
        case "<=":
            return lhs.high <= rhs.low
        case "==":
            return lhs.point and lhs == rhs
        case _:
            return lhs.disjoint(rhs)


_OPPOSITES: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "==": "!=", "!=": "=="}


def never(op: str, lhs: Interval, rhs: Interval) -> bool:
    """Whether `lhs op rhs` holds for no values."""
    return always(_OPPOSITES[op], lhs, rhs)
