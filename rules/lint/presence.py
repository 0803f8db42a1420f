"""Whether an expression can give anything at all, and whether it can ever stop to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from rules.lint.bounds import always, never
from rules.lint.label_flow import clash
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
    VectorMatching,
    VectorSelector,
    children,
)
from rules.promql.printer import format as format_expression
from rules.promql.regex import compile_matcher
from rules.promql.tokens import COMPARISONS, SET_OPERATORS
from rules.promql.types import type_of
from rules.promql.walk import unwrapped, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from rules.lint.intervals import Interval
    from rules.lint.label_flow import Flow
    from rules.promql.ast import Expr, Matcher
    from rules.source import Span

ABSENCE: Final = frozenset({"absent", "absent_over_time"})
# One sample says nothing about how fast something changes.
_NEED_TWO: Final = frozenset({
    "delta", "deriv", "double_exponential_smoothing", "idelta", "increase", "irate",
    "predict_linear", "rate",
})  # fmt: skip
# Series that come and go with what they tell.
WRITTEN_BY_ALERTS: Final = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_ALL_LABELS: Final = VectorMatching("one-to-one", on=False, labels=())


class Presence(IntEnum):
    """How an expression's elements come and go, in increasing order."""

    NEVER = 0
    SOMETIMES = 1
    WHILE_SERIES_EXIST = 2
    ALWAYS = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a part of an expression never gives anything, or gives it whatever the values."""

    span: Span
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the children of a node. `sample_interval_ms`: how far samples are apart."""

    presence: Callable[[Expr], Presence]
    bounds: Callable[[Expr], Interval]
    flow: Callable[[Expr], Flow]
    sample_interval_ms: int


Verdict = tuple[Presence, "Reason | None"]


def presence(node: Expr, known: Known) -> Verdict:
    """A node's presence; the reason is given where the node itself decides, not its children."""
    match node:
        case VectorSelector():
            reason = _contradiction(node)
            if reason is not None:
                return Presence.NEVER, reason
            comes = node.name in WRITTEN_BY_ALERTS
            return Presence.SOMETIMES if comes else Presence.WHILE_SERIES_EXIST, None
        case MatrixSelector(selector=selector):
            return known.presence(selector), None
        case Subquery(expr=inner) | Paren(expr=inner) | Unary(expr=inner):
            return known.presence(inner), None
        case Aggregate():
            return _aggregate(node, known)
        case Call():
            return _call(node, known)
        case Binary():
            return _binary(node, known)
        case _:
            return Presence.ALWAYS, None


def inside_absent(expr: Expr) -> set[int]:
    """The ids of all nodes of a tree that stand inside `absent`."""
    inside: set[int] = set()
    # A parent comes before its children.
    for node in walk(expr):
        if id(node) in inside or (isinstance(node, Call) and node.func in ABSENCE):
            inside.update(map(id, children(node)))
    return inside


def _contradiction(selector: VectorSelector) -> Reason | None:
    """A matcher that refuses what another one on the same label demands."""
    demanded: dict[str, Matcher] = {}
    for matcher in selector.matchers:
        if matcher.op == "=":
            demanded.setdefault(matcher.label, matcher)
    for matcher in selector.matchers:
        equal = demanded.get(matcher.label)
        if equal is not None and not _accepts(matcher, equal.value):
            return Reason(
                matcher.span,
                f"no series can match: '{matcher.label}' is to be \"{equal.value}\" and this "
                "refuses it",
                "leave one of the two out, or write =~ with alternatives: a|b",
            )
    return None


def _accepts(matcher: Matcher, value: str) -> bool:
    match matcher.op:
        case "=":
            return value == matcher.value
        case "!=":
            return value != matcher.value
        case "=~":
            return compile_matcher(matcher.value)(value)
        case _:
            return not compile_matcher(matcher.value)(value)


def _aggregate(node: Aggregate, known: Known) -> Verdict:
    takes_some = node.op in {"topk", "bottomk", "limitk"} and node.param is not None
    if takes_some and node.param is not None and known.bounds(node.param).high < 1:
        return Presence.NEVER, Reason(node.param.span, f"{node.op} of less than 1 gives nothing")
    return known.presence(node.expr), None


def _call(node: Call, known: Known) -> Verdict:
    kinds = {ValueType.VECTOR, ValueType.MATRIX}
    inner = [known.presence(arg) for arg in node.args if type_of(arg) in kinds]
    if node.func in ABSENCE:
        return _absent(node, inner[0])
    if not inner or node.func == "scalar":
        return Presence.ALWAYS, None
    first = node.args[0]
    if node.func in _NEED_TWO and isinstance(first, MatrixSelector):
        range_ms = first.range.milliseconds
        if 0 < range_ms <= known.sample_interval_ms:
            seconds = known.sample_interval_ms / 1000
            return Presence.NEVER, Reason(
                first.span,
                f"{node.func} needs two samples, and a window of {range_ms / 1000:g}s holds one "
                f"at most when they come every {seconds:g}s",
                f"four times the interval is a good range: [{4 * seconds:g}s]",
            )
    return inner[0], None


def _absent(node: Call, inner: Presence) -> Verdict:
    if inner is Presence.ALWAYS:
        return Presence.NEVER, Reason(
            node.span, f"{node.func}() of what is always there gives nothing"
        )
    return Presence.ALWAYS if inner is Presence.NEVER else Presence.SOMETIMES, None


def _binary(node: Binary, known: Known) -> Verdict:
    lhs, rhs = known.presence(node.lhs), known.presence(node.rhs)
    if node.op == "or":
        return max(lhs, rhs), None
    if lhs is Presence.NEVER or (rhs is Presence.NEVER and node.op != "unless"):
        return Presence.NEVER, None
    if node.op in SET_OPERATORS:
        return _filtering_set(node, known, lhs, rhs)
    if node.matching is not None:
        reason = _mismatch(node, known)
        if reason is not None:
            return Presence.NEVER, reason
    if node.op in COMPARISONS and not node.return_bool:
        return _comparison(node, known, _of_pairs(node, lhs, rhs))
    return _of_pairs(node, lhs, rhs), None


def _of_pairs(node: Binary, lhs: Presence, rhs: Presence) -> Presence:
    """Of two vectors the elements have to find each other, which may come to an end."""
    most = Presence.ALWAYS if node.matching is None else Presence.WHILE_SERIES_EXIST
    return min(lhs, rhs, most)


def _filtering_set(node: Binary, known: Known, lhs: Presence, rhs: Presence) -> Verdict:
    """`and` and `unless`."""
    matching = node.matching or _ALL_LABELS
    meets_all = matching.on and not matching.labels
    if node.op == "and":
        reason = _mismatch(node, known) or _apart(node, known)
        if reason is not None:
            return Presence.NEVER, reason
        return lhs if meets_all and rhs is Presence.ALWAYS else Presence.SOMETIMES, None
    if rhs is Presence.NEVER:
        return lhs, None
    if meets_all and rhs is Presence.ALWAYS:
        message = "nothing is left: the right side is always there"
        return Presence.NEVER, Reason(node.op_span, message)
    return Presence.SOMETIMES, None


def _apart(node: Binary, known: Known) -> Reason | None:
    """Two conditions on one value that it cannot meet at once."""
    if node.matching is not None and (node.matching.on or node.matching.labels):
        return None
    left, right = known.bounds(node.lhs), known.bounds(node.rhs)
    if not left.disjoint(right):
        return None
    if format_expression(_without_filters(node.lhs)) != format_expression(
        _without_filters(node.rhs)
    ):
        return None
    return Reason(
        node.op_span,
        f"both sides ask for one value: {left} on the left, {right} on the right",
        "did you mean 'or'?",
    )


def _without_filters(expr: Expr) -> Expr:
    """What is compared with numbers, inside of all the comparisons."""
    while True:
        match expr:
            case Paren(expr=inner):
                expr = inner
            case Binary(op=op, lhs=lhs, rhs=rhs, return_bool=False) if op in COMPARISONS:
                if type_of(rhs) is ValueType.SCALAR:
                    expr = lhs
                elif type_of(lhs) is ValueType.SCALAR:
                    expr = rhs
                else:
                    return expr
            case _:
                return expr


def _mismatch(node: Binary, known: Known) -> Reason | None:
    found = clash(node.matching or _ALL_LABELS, known.flow(node.lhs), known.flow(node.rhs))
    if found is None:
        return None
    label, left, right = found
    return Reason(
        node.op_span,
        f"the two sides never match: the label '{label}' is {_told(left)} on the left and "
        f"{_told(right)} on the right",
        f"match on what both have: {node.op} on (...), or {node.op} ignoring ({label})",
    )


def _told(value: str) -> str:
    return f'"{value}"' if value else "missing"


def _comparison(node: Binary, known: Known, inner: Presence) -> Verdict:
    for side in (node.lhs, node.rhs):
        if isinstance(side, NumberLiteral) and math.isnan(side.value) and node.op != "!=":
            return Presence.NEVER, Reason(
                side.span, "no comparison with NaN holds", "x != x is true for NaN and nothing else"
            )
    left, right = known.bounds(node.lhs), known.bounds(node.rhs)
    if never(node.op, left, right):
        return Presence.NEVER, Reason(
            node.span,
            f"this comparison never holds: {left} on the left, {right} on the right",
            _counting_hint(node),
        )
    if always(node.op, left, right):
        # Of numbers; a NaN may come and go.
        return min(inner, Presence.WHILE_SERIES_EXIST), Reason(
            node.span, f"this comparison always holds: {left} on the left, {right} on the right"
        )
    return Presence.SOMETIMES, None


def _counting_hint(node: Binary) -> str:
    inner = unwrapped(node.lhs)
    if isinstance(inner, Aggregate) and inner.op == "count":
        return "count() of nothing is nothing, not 0: ask absent(...) instead"
    return ""
