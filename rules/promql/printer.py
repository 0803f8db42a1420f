"""A syntax tree as canonical text: what Prometheus' `String()` gives for the same tree."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from rules.durations import format_duration
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
from rules.promql.strings import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rules.promql.ast import At, Duration, Matcher, VectorMatching

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def format(expr: Expr) -> str:  # noqa: A001 - the verb of this module, called printer.format
    """The canonical text. Parsing it gives the same tree, spans and order of matchers apart."""
    out: list[str] = []
    pending: list[Expr | str] = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            out.append(node)
        else:
            pending.extend(reversed(_parts(node)))
    return "".join(out)


def _parts(node: Expr) -> list[Expr | str]:  # noqa: C901 - one case per kind of node
    """The node as text with its sub-expressions still to be printed."""
    match node:
        case NumberLiteral():
            return [_number(node)]
        case StringLiteral(value=value):
            return [quote(value)]
        case VectorSelector():
            return [_selector(node) + _modifiers(node)]
        case MatrixSelector(selector=inner):
            return [f"{_selector(inner)}[{_duration(node.range)}]{_modifiers(inner)}"]
        case Subquery():
            step = "" if node.step is None else _duration(node.step)
            length = _duration(node.range)
            return [node.expr, f"[{length}:{step}]{_at(node.at)}{_offset(node.offset)}"]
        case Paren(expr=inner):
            return ["(", inner, ")"]
        case Unary(op=op, expr=inner):
            return [op, inner]
        case Binary():
            with_bool = " bool" if node.return_bool else ""
            return [node.lhs, f" {node.op}{with_bool}{_matching(node.matching)} ", node.rhs]
        case Aggregate():
            param: list[Expr | str] = [] if node.param is None else [node.param, ", "]
            return [f"{node.op}{_grouping(node)}(", *param, node.expr, ")"]
        case Call(func=func, args=args):
            listed: list[Expr | str] = []
            for arg in args:
                listed += [", ", arg] if listed else [arg]
            return [f"{func}(", *listed, ")"]


def _number(node: NumberLiteral) -> str:
    if node.duration:
        return format_duration(round(node.value * 1000))
    return _value(node.value)


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    shown = f"{Decimal(repr(value)):f}"
    return shown.removesuffix(".0")


def _selector(node: VectorSelector) -> str:
    name = node.name or ""
    shown = sorted(
        _matcher(matcher)
        for matcher in node.matchers
        if not (matcher.label == "__name__" and matcher.op == "=" and matcher.value == name != "")
    )
    return f"{name}{{{','.join(shown)}}}" if shown or not name else name


def _matcher(matcher: Matcher) -> str:
    return f"{_label(matcher.label)}{matcher.op}{quote(matcher.value)}"


def _label(name: str) -> str:
    return name if _LABEL.fullmatch(name) else quote(name)


def _labels(names: Iterable[str]) -> str:
    return ", ".join(_label(name) for name in names)


def _at(at: At | None) -> str:
    if at is None:
        return ""
    if isinstance(at.anchor, int):
        return f" @ {Decimal(at.anchor) / 1000:.3f}"
    return f" @ {at.anchor}()"


def _modifiers(node: VectorSelector) -> str:
    modifier = "" if node.modifier is None else f" {node.modifier}"
    return modifier + _at(node.at) + _offset(node.offset)


def _offset(offset: Duration | None) -> str:
    if offset is None or (offset.expr is None and offset.milliseconds == 0):
        return ""
    return f" offset {_duration(offset)}"


def _duration(duration: Duration) -> str:
    if duration.expr is not None:
        return format(duration.expr)
    return format_duration(duration.milliseconds)


def _grouping(node: Aggregate) -> str:
    if node.without:
        return f" without ({_labels(node.grouping)}) "
    return f" by ({_labels(node.grouping)}) " if node.grouping else ""


def _matching(matching: VectorMatching | None) -> str:
    if matching is None:
        return ""
    grouped = matching.cardinality in {"many-to-one", "one-to-many"}
    shown = ""
    if matching.labels or matching.on or grouped:
        shown = f" {'on' if matching.on else 'ignoring'} ({_labels(matching.labels)})"
    if grouped:
        side = "left" if matching.cardinality == "many-to-one" else "right"
        shown += f" group_{side} ({_labels(matching.include)})"
    return shown + _fill(matching.fill_left, matching.fill_right)


def _fill(left: float | None, right: float | None) -> str:
    if left is not None and left == right:
        return f" fill ({_value(left)})"
    shown = "" if left is None else f" fill_left ({_value(left)})"
    return shown if right is None else f"{shown} fill_right ({_value(right)})"
