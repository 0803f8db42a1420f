"""What in an expression Prometheus reads only behind a feature flag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rules.promql.ast import Aggregate, Call
from rules.promql.functions import AGGREGATORS, FUNCTIONS
from rules.promql.walk import walk
from rules.source import Span

if TYPE_CHECKING:
    from rules.promql.ast import Expr

EXPERIMENTAL_FUNCTIONS: Final = "promql-experimental-functions"


@dataclass(frozen=True, slots=True)
class Feature:
    """One use. `flag` is the value of Prometheus' --enable-feature that it needs."""

    name: str
    flag: str
    span: Span


def features(expr: Expr) -> tuple[Feature, ...]:
    """Every use of an experimental part of PromQL, in source order."""
    found = []
    for node in walk(expr):
        match node:
            case Call(func=name, func_span=span) if FUNCTIONS[name].experimental:
                found.append(Feature(name, EXPERIMENTAL_FUNCTIONS, span))
            case Aggregate(op=op, span=span) if AGGREGATORS[op].experimental:
                start = span.start
                found.append(Feature(op, EXPERIMENTAL_FUNCTIONS, Span(start, start + len(op))))
            case _:
                pass
    return tuple(sorted(found, key=lambda feature: feature.span))
