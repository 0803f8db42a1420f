"""Types of expressions, and the check that every part gets the type it needs.

The rules are Prometheus'. The parser checks each node as it builds it, when it knows the types of
the parts, so that no walk is needed; each finding carries the span of the part at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.promql import hints, memory
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
    ValueType,
    VectorSelector,
)
from rules.promql.functions import AGGREGATORS, FUNCTIONS, FUNCTIONS_WITH_MEMORY
from rules.promql.regex import compile_matcher
from rules.promql.tokens import COMPARISONS, SET_OPERATORS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.promql.ast import Matcher
    from rules.source import Span

_COMPUTABLE: Final = (ValueType.SCALAR, ValueType.VECTOR)


@dataclass(frozen=True, slots=True)
class Finding:
    """One type error."""

    span: Span
    message: str
    hint: str = ""


def type_of(expr: Expr) -> ValueType:
    """The type that the expression evaluates to."""
    while isinstance(expr, Paren | Unary):
        expr = expr.expr
    match expr:
        case NumberLiteral():
            return ValueType.SCALAR
        case StringLiteral():
            return ValueType.STRING
        case MatrixSelector() | Subquery():
            return ValueType.MATRIX
        case VectorSelector() | Aggregate():
            return ValueType.VECTOR
        case Call(func=func):
            return FUNCTIONS[func].returns if func in FUNCTIONS else ValueType.VECTOR
        case Binary():
            return _binary_type(expr)


def _binary_type(expr: Binary) -> ValueType:
    pending: list[Expr] = [expr]
    while pending:
        node = pending.pop()
        while isinstance(node, Paren | Unary):
            node = node.expr
        if isinstance(node, Binary):
            if node.matching is not None:
                return ValueType.VECTOR
            pending += [node.lhs, node.rhs]
        elif type_of(node) is not ValueType.SCALAR:
            return ValueType.VECTOR
    return ValueType.SCALAR


def check_unary(node: Unary, kind: ValueType, text: str) -> Iterator[Finding]:
    """What is wrong with a sign before an expression of type `kind`, in the expression `text`."""
    if kind not in _COMPUTABLE:
        message = f"unary {node.op} expects a scalar or an instant vector, got {a(kind)}"
        yield Finding(node.span, message, hints.mends.computable(node.expr, kind, text))


def check_subquery(node: Subquery, kind: ValueType, text: str) -> Iterator[Finding]:
    """What is wrong with a subquery over an expression of type `kind`."""
    if kind is not ValueType.VECTOR:
        message = f"a subquery expects an instant vector, got {a(kind)}"
        yield Finding(node.span, message, hints.mends.subquery(node.expr, kind, text))
    for call in memory.calls_within(node.expr):
        message = f"{call.func} has one value at a time, that of its own clock: it has no subquery"
        yield Finding(call.func_span, message, memory.record_first(call, text))


def check_binary(node: Binary, left: ValueType, right: ValueType, text: str) -> Iterator[Finding]:
    """What is wrong with a binary operator between sides of these types."""
    for side, kind in ((node.lhs, left), (node.rhs, right)):
        if kind not in _COMPUTABLE:
            message = f'"{node.op}" expects scalars or instant vectors, got {a(kind)}'
            yield Finding(side.span, message, hints.mends.computable(side, kind, text, node))
    scalars = left is right is ValueType.SCALAR
    if node.return_bool and node.op not in COMPARISONS:
        message = f'bool is only allowed on comparisons, not on "{node.op}"'
        yield Finding(node.op_span, message, "remove bool")
    elif scalars and node.op in COMPARISONS and not node.return_bool:
        message = "a comparison between two scalars must use bool"
        yield Finding(node.op_span, message, hints.mends.scalar_comparison(node, text))
    if node.op in SET_OPERATORS and ValueType.SCALAR in {left, right}:
        name, side = ("left", node.lhs) if left is ValueType.SCALAR else ("right", node.rhs)
        shown = hints.mends.shown(side, text)
        message = f'"{node.op}" expects instant vectors on both sides; the {name} one is a scalar'
        yield Finding(node.span, f"{message}: {shown}", hints.mends.set_operand(node, side, text))
    if node.matching is not None:
        yield from _check_matching(node)


def _check_matching(node: Binary) -> Iterator[Finding]:
    matching = node.matching
    if matching is None:
        return
    grouped = matching.cardinality in {"many-to-one", "one-to-many"}
    if grouped and node.op in SET_OPERATORS:
        word = "group_left" if matching.cardinality == "many-to-one" else "group_right"
        message = f'{word} is not allowed on "{node.op}"'
        yield Finding(node.span, message, f"remove {word}: {node.op} is always many-to-many")
    filled = matching.fill_left is not None or matching.fill_right is not None
    if filled and node.op in SET_OPERATORS:
        message = f'fill is not allowed on "{node.op}"'
        yield Finding(node.span, message, f"remove it: {node.op} needs no partner")
    both = [label for label in matching.labels if label in matching.include]
    if matching.on and both:
        message = f"the label {', '.join(both)} is both in on (...) and in the group's labels"
        hint = "labels in on (...) are kept anyway: remove it from the group's"
        yield Finding(node.op_span, message, hint)


def check_aggregate(
    node: Aggregate, param: ValueType | None, given: ValueType, text: str
) -> Iterator[Finding]:
    """What is wrong with an aggregation of these types; `param` None: it takes none."""
    aggregator, wanted = AGGREGATORS[node.op], ValueType.VECTOR
    if node.param and param and aggregator.param and param is not aggregator.param:
        swapped = given is aggregator.param and param is wanted
        hint = (
            hints.mends.swapped(node.op, (node.expr, node.param), text)
            if swapped
            else hints.mends.argument(node.param, aggregator.param, text)
        )
        need = f"{a(aggregator.param)} as its first argument"
        yield Finding(node.param.span, f"{node.op} expects {need}, got {a(param)}", hint)
        if swapped:
            return
    if given is not wanted:
        hint = hints.mends.aggregated(node, given, text)
        yield Finding(node.expr.span, f"{node.op} expects {a(wanted)}, got {a(given)}", hint)
    if isinstance(node.param, StringLiteral) and not node.param.value:
        message = f"{node.op} expects a label name, got an empty string"
        yield Finding(node.param.span, message, 'name the label, as in "version"')


def check_call(node: Call, kinds: tuple[ValueType, ...], text: str) -> Iterator[Finding]:
    """What is wrong with a call of a known function with arguments of these types."""
    signature = FUNCTIONS[node.func]
    count, least, most = len(kinds), signature.least, signature.most
    if count < least or (most is not None and count > most):
        message = hints.mends.arity(signature, count)
        yield Finding(node.func_span, message, hints.mends.arguments(signature, node, kinds, text))
        return
    wrong = [i for i, kind in enumerate(kinds) if kind is not signature.arg(i)]
    if not wrong:
        if node.func == "info":
            yield from _check_info(node, text)
        if node.func in FUNCTIONS_WITH_MEMORY:
            for fault in memory.faults(node, text):
                yield Finding(*fault)
        return
    order = hints.mends.reordered(signature, kinds)
    if order is not None:
        first = wrong[0]
        place = hints.mends.ordinal(first)
        message = f"{node.func} expects {a(signature.arg(first))} as its {place} argument"
        hint = hints.mends.swapped(node.func, tuple(node.args[i] for i in order), text)
        yield Finding(node.args[first].span, f"{message}, got {a(kinds[first])}", hint)
        return
    for i in wrong:
        place = "" if count == 1 else f" as its {hints.mends.ordinal(i)} argument"
        message = f"{node.func} expects {a(signature.arg(i))}{place}, got {a(kinds[i])}"
        yield Finding(
            node.args[i].span, message, hints.mends.call_argument(node, i, signature.arg(i), text)
        )


def _check_info(node: Call, text: str) -> Iterator[Finding]:
    for matchers in node.args[1:]:
        if not isinstance(matchers, VectorSelector) or matchers.name is not None:
            shown = hints.mends.shown(matchers, text)
            message = f"info expects only label matchers as its 2nd argument, got {shown}"
            yield Finding(matchers.span, message, hints.mends.info_matchers(matchers, text))


def check_selector(node: VectorSelector, text: str) -> Iterator[Finding]:
    """What is wrong with a selector: two names, or nothing that must be there."""
    if node.name is not None:
        for matcher in node.matchers[1:]:
            if matcher.label == "__name__":
                message = f'the metric name is given twice: "{node.name}" and "{matcher.value}"'
                yield Finding(node.span, message, hints.mends.second_name(node, matcher, text))
                return
    elif all(_matches_empty(matcher) for matcher in node.matchers):
        message = "a selector expects at least one matcher that does not match the empty string"
        yield Finding(node.span, message, hints.mends.empty_selector(node))


def _matches_empty(matcher: Matcher) -> bool:
    match matcher.op:
        case "=":
            return not matcher.value
        case "!=":
            return bool(matcher.value)
        case "=~":
            return compile_matcher(matcher.value)("")
        case "!~":
            return not compile_matcher(matcher.value)("")


def a(kind: ValueType) -> str:
    """The type with its article."""
    article = "an" if kind is ValueType.VECTOR else "a"
    return f"{article} {kind.value}"
