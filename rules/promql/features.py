"""What in an expression Prometheus does not read, or only behind a feature flag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.promql.ast import Aggregate, Binary, Call, VectorSelector
from rules.promql.duration_expressions import durations
from rules.promql.functions import AGGREGATORS, FUNCTIONS
from rules.promql.printer import format as format_expression
from rules.promql.walk import walk
from rules.slotted import dataclass
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.promql.ast import Expr
    from rules.promql.functions import Aggregator, Signature

EXPERIMENTAL_FUNCTIONS: Final = "promql-experimental-functions"
DURATION_EXPRESSIONS: Final = "promql-duration-expr"
RANGE_SELECTORS: Final = "promql-extended-range-selectors"
FILL_MODIFIERS: Final = "promql-binop-fill-modifiers"
# What no flag brings: Prometheus does not have it.
OURS: Final = ""


@dataclass(frozen=True, slots=True)
class Feature:
    """One use. `flag` is the value of Prometheus' --enable-feature that it needs, or OURS."""

    name: str
    flag: str
    span: Span


def features(expr: Expr) -> tuple[Feature, ...]:
    """Every use of what is not stable PromQL, in source order."""
    found = [feature for node in walk(expr) for feature in _of(node)]
    return tuple(sorted(found, key=lambda feature: feature.span))


def _of(node: Expr) -> Iterator[Feature]:
    match node:
        case Call(func=name, func_span=span):
            yield from _named(FUNCTIONS[name], span)
        case Aggregate(op=op, span=span):
            yield from _named(AGGREGATORS[op], Span(span.start, span.start + len(op)))
        case VectorSelector(modifier=str() as modifier, span=span):
            yield Feature(modifier, RANGE_SELECTORS, span)
        case Binary(matching=matching, op_span=span) if matching is not None:
            for word, value in (("left", matching.fill_left), ("right", matching.fill_right)):
                if value is not None:
                    both = matching.fill_left == matching.fill_right
                    yield Feature("fill" if both else f"fill_{word}", FILL_MODIFIERS, span)
                    if both:
                        break
        case _:
            pass
    for duration in durations(node):
        if duration.expr is not None:
            name = format_expression(duration.expr)
            yield Feature(name, DURATION_EXPRESSIONS, duration.span)


def _named(row: Signature | Aggregator, span: Span) -> Iterator[Feature]:
    if row.ours:
        yield Feature(row.name, OURS, span)
    elif row.experimental:
        yield Feature(row.name, EXPERIMENTAL_FUNCTIONS, span)
