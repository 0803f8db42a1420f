"""The PromQL syntax tree.

Durations and timestamps are in milliseconds, as Prometheus stores them. Every node has the span
of the source text it came from, so that errors and lint findings point at their place.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Literal

from rules.slotted import dataclass

if TYPE_CHECKING:
    from rules.source import Span


class ValueType(str, Enum):
    """The four types a PromQL expression can have; the values are Prometheus' own words."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


MatchOp = Literal["=", "!=", "=~", "!~"]
UnaryOp = Literal["+", "-"]
BinaryOp = Literal[
    "+", "-", "*", "/", "%", "^", "atan2", "==", "!=", "<", "<=", ">", ">=", "</", ">/",
    "and", "or", "unless",
]  # fmt: skip
AggregateOp = Literal[
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile",
    "topk", "bottomk", "count_values", "limitk", "limit_ratio",
    "straggler_cost", "straggler_score", "straggler_slowdown",
]  # fmt: skip
RangeModifier = Literal["anchored", "smoothed"]
Cardinality = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher. `=~` and `!~` are anchored RE2 patterns that parsed."""

    span: Span
    label: str
    op: MatchOp
    value: str


@dataclass(frozen=True, slots=True)
class At:
    """The `@` modifier: a fixed time in unix milliseconds, or `start()` / `end()`."""

    span: Span
    anchor: int | Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration, signed, in milliseconds.

    `expr` is None for a literal. Otherwise it is the arithmetic that was written, in seconds: made
    of NumberLiteral, Paren, Unary, Binary and calls of step(), range(), min_of() and max_of(). Its
    value depends on the query; `duration_expressions.resolve` makes literals of all of a tree's
    durations, and `milliseconds` is 0 until then.
    """

    span: Span
    milliseconds: int
    expr: Expr | None = None


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number; `5m` as a number is 300 (seconds), and `duration` says that it was so written."""

    span: Span
    value: float
    duration: bool = False


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A string, escapes resolved."""

    span: Span
    value: str


@dataclass(frozen=True, slots=True)
class VectorSelector:
    """`name{matchers} anchored offset d @ t`.

    `matchers` holds every matcher, the one on `__name__` that stands for `name` included.
    `modifier` says what a range, or an instant, takes from the samples beside it.
    """

    span: Span
    name: str | None
    matchers: tuple[Matcher, ...]
    offset: Duration | None = None
    at: At | None = None
    modifier: RangeModifier | None = None


@dataclass(frozen=True, slots=True)
class MatrixSelector:
    """`selector[range]`; offset, `@` and modifier sit on the inner selector, as in Prometheus."""

    span: Span
    selector: VectorSelector
    range: Duration


@dataclass(frozen=True, slots=True)
class Subquery:
    """`expr[range:step] offset d @ t`; no step means the global evaluation interval."""

    span: Span
    expr: Expr
    range: Duration
    step: Duration | None
    offset: Duration | None = None
    at: At | None = None


@dataclass(frozen=True, slots=True)
class Paren:
    """`(expr)`."""

    span: Span
    expr: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """`+expr` or `-expr`."""

    span: Span
    op: UnaryOp
    expr: Expr


@dataclass(frozen=True, slots=True)
class VectorMatching:
    """How the two sides of a binary operator find each other.

    `on` true: `labels` are those matched on; false: those ignored (none: match on all).
    `include` are the labels in `group_left(...)` / `group_right(...)`. Set operators are
    many-to-many. `fill_left` and `fill_right` are the values that stand in for a series missing on
    that side; None: without a partner there is no result.
    """

    cardinality: Cardinality
    on: bool
    labels: tuple[str, ...]
    include: tuple[str, ...] = ()
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    """`lhs op [bool] [on|ignoring (...)] [group_left|group_right (...)] [fill (...)] rhs`.

    `matching` is None unless both sides are instant vectors.
    """

    span: Span
    op: BinaryOp
    op_span: Span
    lhs: Expr
    rhs: Expr
    return_bool: bool = False
    matching: VectorMatching | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`op [by|without (grouping)] ([param,] expr)`."""

    span: Span
    op: AggregateOp
    expr: Expr
    param: Expr | None
    grouping: tuple[str, ...]
    without: bool


@dataclass(frozen=True, slots=True)
class Call:
    """`func(args...)`; `func` is a name in `rules.promql.functions.FUNCTIONS`."""

    span: Span
    func: str
    func_span: Span
    args: tuple[Expr, ...]


Expr = (
    NumberLiteral
    | StringLiteral
    | VectorSelector
    | MatrixSelector
    | Subquery
    | Paren
    | Unary
    | Binary
    | Aggregate
    | Call
)


def children(node: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of a node, in source order."""
    match node:
        case MatrixSelector(selector=selector):
            return (selector,)
        case Subquery(expr=expr) | Paren(expr=expr) | Unary(expr=expr):
            return (expr,)
        case Binary(lhs=lhs, rhs=rhs):
            return (lhs, rhs)
        case Aggregate(param=param, expr=expr):
            return (expr,) if param is None else (param, expr)
        case Call(args=args):
            return args
        case _:
            return ()
