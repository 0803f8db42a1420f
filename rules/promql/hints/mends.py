"""What to write instead, for each kind of type error. Every function gives the text of a hint."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Final

from rules.durations import DurationError, parse_duration
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.functions import FUNCTIONS, Signature
from rules.promql.tokens import shorten
from rules.promql.walk import unwrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.promql.ast import Expr, Matcher

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth")
_EXAMPLES: Final = {
    ValueType.SCALAR: "0.9",
    ValueType.VECTOR: "x",
    ValueType.MATRIX: "x[5m]",
    ValueType.STRING: '"text"',
}
_USAGE: Final = {
    "label_join": ("x", '"new_label"', '","', '"label"'),
    "label_replace": ("x", '"new_label"', '"$1"', '"label"', '"(.*)"'),
    "predict_linear": ("x[1h]", "4 * 3600"),
    "clamp": ("x", "0", "100"),
    "clamp_min": ("x", "0"),
    "clamp_max": ("x", "100"),
    "histogram_fraction": ("0", "0.2", "x"),
    "vector": ("1",),
    "seasonal_zscore": ("x[8d]", "86400"),
    "ewma_over_time": ("x[1h]", "300"),
    "ewma_zscore": ("x[1h]", "300"),
    "holt_band_over_time": ("x[1h]", "0.3", "0.1"),
    "holt_forecast_over_time": ("x[1h]", "0.3", "0.1"),
    "holt_trend_over_time": ("x[1h]", "0.3", "0.1"),
    "distribution_shift": ("x[1h]", "x[1h] offset 1d"),
    "distribution_shift_pvalue": ("x[1h]", "x[1h] offset 1d"),
}
_UNITS: Final = {
    "seasonal_zscore": "the period is in seconds",
    "ewma_over_time": "the half-life is in seconds",
    "ewma_zscore": "the half-life is in seconds",
}
_COUNTS: Final = ("no arguments", "1 argument")


def shown(expr: Expr, text: str) -> str:
    """The expression's own text, on one line and not too long."""
    return shorten(text[expr.span.start : expr.span.end], 70)


def ordinal(index: int) -> str:
    """`first` for 0."""
    return _ORDINALS[index] if index < len(_ORDINALS) else f"{index + 1}th"


def arity(signature: Signature, got: int) -> str:
    """`clamp_max takes 2 arguments (instant vector, scalar), got 1`."""
    least, most = signature.least, signature.most
    kinds = ", ".join(kind.value for kind in signature.args)
    if most is None:
        count = f"at least {_counted(least)}"
    elif most == least:
        count = _counted(least)
    else:
        count = f"{least} to {most} arguments" if least else f"at most {_counted(most)}"
    return f"{signature.name} takes {count}{f' ({kinds})' if kinds else ''}, got {got}"


def _counted(count: int) -> str:
    return _COUNTS[count] if count < len(_COUNTS) else f"{count} arguments"


def arguments(signature: Signature, node: Call, kinds: Sequence[ValueType], text: str) -> str:
    """A call with the right number of arguments, from those that are there."""
    name = signature.name
    written = [shown(arg, text) for arg in node.args]
    if len(written) > len(signature.args):
        for i, (whole, part) in enumerate(pairwise(node.args)):
            glued = text[whole.span.start : part.span.end].replace(",", ".", 1)
            if _is_number(glued):
                merged = [*written[:i], glued, *written[i + 2 :]]
                return f"a decimal point is a dot: {name}({', '.join(merged)})"
    given = list(zip(written, kinds, strict=True))
    filled = []
    for kind, example in zip(signature.args, examples(signature), strict=True):
        found = next((pair for pair in given if pair[1] is kind), (example, kind))
        if found in given:
            given.remove(found)
        filled.append(found[0])
    unit = f": {_UNITS[name]}" if name in _UNITS else ""
    return f"write {name}({', '.join(filled)}){unit}"


def examples(signature: Signature) -> Sequence[str]:
    """An argument for each of the function's parameters."""
    known = _USAGE.get(signature.name)
    return known or [_EXAMPLES[kind] for kind in signature.args]


def reordered(signature: Signature, kinds: Sequence[ValueType]) -> tuple[int, ...] | None:
    """An order of the arguments that has the right types, if there is one."""
    if len(kinds) > 5:
        return None
    for order in permutations(range(len(kinds))):
        if all(kinds[place] is signature.arg(i) for i, place in enumerate(order)):
            return order
    return None


def swapped(name: str, args: Sequence[Expr], text: str) -> str:
    """The call with its arguments in the right order."""
    listed = ", ".join(shown(arg, text) for arg in args)
    return f"the arguments are in the wrong order: {name}({listed})"


def call_argument(node: Call, index: int, wanted: ValueType, text: str) -> str:
    """How to give argument `index` of a call the type it needs."""
    arg = node.args[index]
    others = [shown(other, text) for other in node.args]
    if wanted is ValueType.MATRIX:
        return _range(node.func, arg, others, index, text)
    if wanted is ValueType.VECTOR and isinstance(arg, MatrixSelector | Subquery):
        return _instant(node.func, arg, others, index, text)
    written = shown(arg, text)
    if node.func == "scalar" and isinstance(arg, NumberLiteral):
        return f"it is a scalar already: {written}"
    if node.func == "scalar" and isinstance(arg, StringLiteral) and _is_quantity(arg.value):
        return f"a number is a scalar already: {arg.value}"
    if node.func == "vector" and isinstance(arg, VectorSelector | Aggregate | Call):
        return f"it is an instant vector already: {written}"
    return argument(arg, wanted, text)


def _range(func: str, arg: Expr, others: list[str], index: int, text: str) -> str:
    inner = unwrapped(arg)
    if isinstance(inner, VectorSelector):
        others[index] = _with_range(inner, text)
        return f"add a range: {func}({', '.join(others)})"
    if isinstance(inner, NumberLiteral | StringLiteral):
        others[index] = examples(FUNCTIONS[func])[index]
        return f"give a selector with a range, as in {func}({', '.join(others)})"
    others[index] = f"{_wrapped(arg, text)}[5m:]"
    hint = f"use a subquery: {func}({', '.join(others)})"
    if isinstance(inner, Aggregate) and isinstance(inner.expr, VectorSelector) and func in _RATES:
        first = f"{func}({_with_range(inner.expr, text)})"
        before, after = text[inner.span.start : inner.expr.span.start], _rest(inner, text)
        hint = f"take the {func} first: {shorten(before + first + after, 90)}, or {hint}"
    return hint


_RATES: Final = frozenset({"rate", "increase", "irate", "delta", "idelta", "deriv"})


def _rest(node: Aggregate, text: str) -> str:
    return text[node.expr.span.end : node.span.end]


def _wrapped(expr: Expr, text: str) -> str:
    """The text, in parentheses where a suffix would bind to its last operand only."""
    written = shown(expr, text)
    return f"({written})" if isinstance(expr, Binary | Unary) else written


def _with_range(selector: VectorSelector, text: str) -> str:
    """The selector with `[5m]` put before its offset and `@`."""
    modifiers = [m.span.start for m in (selector.offset, selector.at) if m is not None]
    written = text[selector.span.start : selector.span.end]
    if not modifiers:
        return shorten(f"{written}[5m]")
    cut = min(written.lower().find(word) for word in ("offset", "@") if word in written.lower())
    return shorten(f"{written[:cut].rstrip()}[5m] {written[cut:]}")


def _instant(
    func: str, arg: MatrixSelector | Subquery, others: list[str], index: int, text: str
) -> str:
    over_time = f"{func}_over_time"
    if over_time in FUNCTIONS and len(others) == 1:
        return f"over time it is {over_time}({others[0]})"
    inner = arg.selector if isinstance(arg, MatrixSelector) else arg.expr
    reduced = others.copy()
    reduced[index] = f"avg_over_time({others[index]})"
    others[index] = shown(inner, text)
    return (
        f"drop the range: {func}({', '.join(others)}), "
        f"or reduce it over time: {func}({', '.join(reduced)})"
    )


def argument(arg: Expr, wanted: ValueType, text: str) -> str:
    """How to turn a part into the wanted type."""
    written = shown(arg, text)
    match wanted, arg:
        case ValueType.STRING, VectorSelector(name=str()):
            return f'put it in quotes: "{written}"'
        case ValueType.STRING, NumberLiteral():
            return f'put it in quotes: "{written}"'
        case ValueType.SCALAR, StringLiteral(value=value) if _is_quantity(value):
            return f"remove the quotes: {value}"
        case ValueType.SCALAR, VectorSelector() | Aggregate() | Call():
            return f"write a number, or scalar({written}) if it is a single series"
        case ValueType.VECTOR, NumberLiteral():
            return f"a number is no series: vector({written}) makes one"
        case ValueType.VECTOR, StringLiteral(value=value) if value.isidentifier():
            return f"remove the quotes: {value}"
        case ValueType.SCALAR, MatrixSelector() | Subquery():
            return "write a number"
        case ValueType.VECTOR, _:
            return f"vector({written}) makes a series of a scalar"
        case _:
            return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_quantity(text: str) -> bool:
    try:
        parse_duration(text)
    except DurationError:
        return _is_number(text)
    return True


def aggregated(node: Aggregate, given: ValueType, text: str) -> str:
    """How to give an aggregation the instant vector it needs."""
    written = shown(node.expr, text)
    if given is ValueType.MATRIX:
        over_time = f"{node.op}_over_time"
        if over_time in FUNCTIONS and node.param is None:
            return (
                f"over time it is {over_time}({written}); "
                f"across series, reduce it first, as in {node.op}(rate({written}))"
            )
        param = "" if node.param is None else f"{shown(node.param, text)}, "
        hint = f"reduce the range first, as in {node.op}({param}rate({written}))"
        over = f"; over time it is {over_time}({param}{written})"
        return hint + over if over_time in FUNCTIONS else hint
    return argument(node.expr, ValueType.VECTOR, text)


def computable(side: Expr, kind: ValueType, text: str, node: Binary | None = None) -> str:
    """How to make a range or string usable with an operator."""
    written = shown(side, text)
    if kind is ValueType.MATRIX:
        inner = unwrapped(side)
        hint = f"reduce the range first, as in rate({written}) or max_over_time({written})"
        if isinstance(inner, MatrixSelector):
            hint += f"; or drop it: {shown(inner.selector, text)}"
        return hint
    if isinstance(side, StringLiteral) and _is_number(side.value):
        return f"remove the quotes: {side.value}"
    if node is not None and node.op in {"==", "!="}:
        op = "=" if node.op == "==" else "!="
        return f"labels are compared inside the braces: x{{label{op}{written}}}"
    return "strings are only arguments of functions"


def scalar_comparison(node: Binary, text: str) -> str:
    """The comparison with bool."""
    lhs, rhs = shown(node.lhs, text), shown(node.rhs, text)
    return f"write {lhs} {node.op} bool {rhs}"


def set_operand(node: Binary, side: Expr, text: str) -> str:
    """What was meant by a number beside and, or, unless."""
    other = shown(node.rhs if side is node.lhs else node.lhs, text)
    number = shown(side, text)
    if node.op == "or":
        return f"for a default value write {other} or vector({number})"
    if not isinstance(side, NumberLiteral):
        return f"vector({number}) makes a series of it"
    return f"to compare write {other} > {number}; to make it a series, vector({number})"


def subquery(inner: Expr, kind: ValueType, text: str) -> str:
    """What was meant by a subquery over something else than an instant vector."""
    if kind is ValueType.MATRIX:
        return f"reduce the inner range first, as in rate({shown(inner, text)})[1h:]"
    return "a subquery runs over series, as in x[1h:]"


def second_name(node: VectorSelector, matcher: Matcher, text: str) -> str:
    """How to name the metric once."""
    if matcher.value and matcher.op == "=" and text[matcher.span.start] in "\"'`":
        return f'for a label write {matcher.value}="..."; for two metrics use or'
    return f"remove the name {node.name}, or the matcher on __name__"


def empty_selector(node: VectorSelector) -> str:
    """How to select something."""
    empty = next((m for m in node.matchers if m.op == "=~" and m.value == ".*"), None)
    if empty is not None:
        return f'write {{{empty.label}=~".+"}} to ask for a label that is there'
    return 'name a metric, or a label that must be there: {job="node"} or {job!=""}'


def info_matchers(arg: Expr, text: str) -> str:
    """The second argument of info as label matchers."""
    if isinstance(arg, VectorSelector) and arg.name is not None:
        return f'a name is a matcher like any other: {{__name__="{arg.name}"}}'
    if isinstance(arg, Paren) and isinstance(arg.expr, VectorSelector):
        return f"remove the parentheses: {shown(arg.expr, text)}"
    return 'write them in braces, as in {version!=""}'
