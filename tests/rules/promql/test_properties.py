from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rules.promql.ast import (
    Aggregate,
    At,
    Binary,
    Call,
    Duration,
    Expr,
    Matcher,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorMatching,
    VectorSelector,
)
from rules.promql.duration_expressions import (
    DurationExpressionError,
    resolve,
    value_ms,
)
from rules.promql.duration_expressions import (
    durations as durations_of,
)
from rules.promql.features import features
from rules.promql.parser import parse
from rules.promql.printer import format as print_expr
from rules.promql.tokens import COMPARISONS, PRECEDENCE, SET_OPERATORS, UNARY_PRECEDENCE
from rules.promql.types import type_of
from rules.promql.walk import walk
from rules.source import Problem, ProblemsError, Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable

NOWHERE = Span(0, 0)
QUICK = settings(max_examples=150, deadline=None)

names = st.sampled_from(
    ["x", "http_requests_total", "sum", "by", "job:x:rate5m", "start", "step", "fill", "anchored"]
)
labels = st.sampled_from(["a", "job", "on", "le", "my label", "täg", "a.b"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
label_lists = st.lists(labels, max_size=2, unique=True).map(tuple)
QUERY = st.sampled_from(["step", "range"]).map(lambda name: Call(NOWHERE, name, NOWHERE, ()))
quantities = st.builds(
    NumberLiteral, st.just(NOWHERE), st.integers(1, 10**6).map(lambda n: n / 4)
) | st.builds(
    NumberLiteral, st.just(NOWHERE), st.integers(1, 10**6).map(lambda n: n / 1000), st.just(True)
)


def _quantified(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Arithmetic on durations, in the form that the parser gives it."""

    def binary(op: Any, lhs: Expr, rhs: Expr) -> Expr:
        lhs = _side(lhs, PRECEDENCE[op], right=False)
        rhs = _side(rhs, PRECEDENCE[op], right=True)
        return Binary(NOWHERE, op, NOWHERE, lhs, rhs)

    def minus(expr: Expr) -> Expr:
        if isinstance(expr, NumberLiteral):
            return NumberLiteral(NOWHERE, -expr.value, expr.duration)
        low = isinstance(expr, Binary) and PRECEDENCE[expr.op] < UNARY_PRECEDENCE
        return Unary(NOWHERE, "-", Paren(NOWHERE, expr) if low else expr)

    calls = st.sampled_from(["min_of", "max_of"])
    return (
        st.builds(binary, st.sampled_from(["+", "-", "*", "/", "%", "^"]), inner, inner)
        | st.builds(minus, inner)
        | st.builds(lambda name, *args: Call(NOWHERE, name, NOWHERE, args), calls, inner, inner)
    )


def _expression(expr: Expr, *, signed: bool) -> Duration:
    duration = Duration(NOWHERE, 0, expr)
    try:
        return replace(duration, milliseconds=value_ms(duration, signed=signed))
    except DurationExpressionError:
        return duration


def _bracketed(expr: Expr) -> Expr:
    """As `offset` takes it: arithmetic in brackets."""
    signed = isinstance(expr, Unary) and isinstance(expr.expr, Call | Paren)
    return expr if isinstance(expr, Call) or signed else Paren(NOWHERE, expr)


arithmetic = st.recursive(quantities | QUERY, _quantified, max_leaves=5)
durations = st.builds(Duration, st.just(NOWHERE), st.integers(1, 10**9)) | arithmetic.filter(
    lambda expr: not isinstance(expr, NumberLiteral)
).map(lambda expr: _expression(expr, signed=False))
offsets = (
    st.none()
    | st.builds(Duration, st.just(NOWHERE), st.integers(-(10**9), 10**9).filter(bool))
    | arithmetic.map(lambda expr: _expression(_bracketed(expr), signed=True))
)
modifiers = st.sampled_from([None, None, "anchored", "smoothed"])
ats = st.none() | st.builds(
    At, st.just(NOWHERE), st.sampled_from(["start", "end"]) | st.integers(-(10**12), 10**12)
)
numbers = st.builds(
    NumberLiteral,
    st.just(NOWHERE),
    st.floats(allow_nan=False, allow_subnormal=False) | st.integers(-(10**6), 10**6).map(float),
)


@st.composite
def selectors(draw: st.DrawFn) -> VectorSelector:
    name = draw(names)
    matcher = st.builds(
        Matcher,
        st.just(NOWHERE),
        labels,
        st.sampled_from(["=", "!="]),
        texts,
    ) | st.builds(Matcher, st.just(NOWHERE), labels, st.sampled_from(["=~", "!~"]), names)
    matchers = draw(st.lists(matcher, max_size=2))
    named = Matcher(NOWHERE, "__name__", "=", name)
    modifier: Any = draw(modifiers)
    return VectorSelector(NOWHERE, name, (named, *matchers), draw(offsets), draw(ats), modifier)


def ranges(vectors: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    matrix = st.builds(MatrixSelector, st.just(NOWHERE), selectors(), durations)
    step = st.none() | durations
    return matrix | st.builds(
        Subquery, st.just(NOWHERE), vectors.map(_closed), durations, step, offsets, ats
    )


def _closed(expr: Expr) -> Expr:
    """The expression, in parentheses where a suffix would bind to a part of it only.

    A selector with an offset takes a subquery as it is, but a range after it is refused.
    """
    return Paren(NOWHERE, expr) if isinstance(expr, Binary | Unary | NumberLiteral) else expr


def _side(expr: Expr, precedence: int, *, right: bool) -> Expr:
    match expr:
        case Binary(op=op):
            needs = PRECEDENCE[op] < precedence or (PRECEDENCE[op] == precedence and right)
            needs = needs or op == "^"
        case Unary() | NumberLiteral():
            needs = not right and precedence > UNARY_PRECEDENCE - 1
        case _:
            needs = False
    return Paren(NOWHERE, expr) if needs else expr


@st.composite
def binaries(draw: st.DrawFn, operands: st.SearchStrategy[Expr]) -> Expr:
    lhs, rhs = draw(operands), draw(operands)
    vectors = type_of(lhs) is type_of(rhs) is ValueType.VECTOR
    scalars = type_of(lhs) is type_of(rhs) is ValueType.SCALAR
    ops = [op for op in PRECEDENCE if vectors or op not in SET_OPERATORS]
    op: Any = draw(st.sampled_from(ops))
    with_bool = op in COMPARISONS and (scalars or draw(st.booleans()))
    matching = None
    if vectors:
        cardinality: Any = "one-to-one"
        include: tuple[str, ...] = ()
        matched, on = draw(label_lists), draw(st.booleans())
        if op in SET_OPERATORS:
            cardinality = "many-to-many"
        elif draw(st.booleans()):
            cardinality = draw(st.sampled_from(["many-to-one", "one-to-many"]))
            include = tuple(label for label in draw(label_lists) if label not in matched)
        fills = st.none() | st.floats(allow_nan=False, allow_subnormal=False)
        left, right = (None, None) if op in SET_OPERATORS else (draw(fills), draw(fills))
        matching = VectorMatching(cardinality, on, matched, include, left, right)
    lhs = _side(lhs, PRECEDENCE[op], right=False)
    rhs = _side(rhs, PRECEDENCE[op], right=True)
    return Binary(NOWHERE, op, NOWHERE, lhs, rhs, with_bool, matching)


@st.composite
def signed(draw: st.DrawFn, operands: st.SearchStrategy[Expr]) -> Expr:
    inner = draw(operands)
    if isinstance(inner, NumberLiteral) or (
        isinstance(inner, Binary) and PRECEDENCE[inner.op] < UNARY_PRECEDENCE
    ):
        inner = Paren(NOWHERE, inner)
    return Unary(NOWHERE, draw(st.sampled_from(["+", "-"])), inner)


@st.composite
def called(draw: st.DrawFn, vectors: st.SearchStrategy[Expr]) -> Expr:
    func = draw(
        st.sampled_from(
            ["rate", "abs", "histogram_quantile", "label_replace", "hour", "info", "min_of"]
        )
    )
    strings = st.builds(StringLiteral, st.just(NOWHERE), texts)
    args: list[Expr]
    match func:
        case "rate":
            args = [draw(ranges(vectors))]
        case "histogram_quantile":
            args = [draw(numbers), draw(vectors)]
        case "label_replace":
            args = [draw(vectors), *draw(st.lists(strings, min_size=4, max_size=4))]
        case "info":
            found = Matcher(NOWHERE, "data", "=~", ".+")
            args = [draw(vectors), VectorSelector(NOWHERE, None, (found,))]
        case "min_of":
            args = [
                draw(numbers),
                Call(NOWHERE, draw(st.sampled_from(["start", "step"])), NOWHERE, ()),
            ]
        case "hour":
            args = draw(st.lists(vectors, max_size=1))
        case _:
            args = [draw(vectors)]
    return Call(NOWHERE, func, NOWHERE, tuple(args))


@st.composite
def aggregated(draw: st.DrawFn, vectors: st.SearchStrategy[Expr]) -> Expr:
    op: Any = draw(st.sampled_from(["sum", "topk", "limit_ratio", "count_values"]))
    param: Expr | None = None
    if op in {"topk", "limit_ratio"}:
        param = draw(numbers)
    elif op == "count_values":
        param = StringLiteral(NOWHERE, draw(texts.filter(bool)))
    return Aggregate(NOWHERE, op, draw(vectors), param, draw(label_lists), draw(st.booleans()))


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    vectors = inner.filter(lambda expr: type_of(expr) is ValueType.VECTOR)
    return (
        binaries(inner)
        | signed(inner)
        | called(vectors)
        | aggregated(vectors)
        | st.builds(Paren, st.just(NOWHERE), inner)
    )


trees = st.recursive(selectors() | numbers, _grown, max_leaves=8)


@QUICK
@given(trees)
def test_a_printed_tree_parses_to_the_same_tree(
    bare: Callable[[object], object], tree: Expr
) -> None:
    assert bare(parse(print_expr(tree))) == bare(tree)


@QUICK
@given(trees)
def test_a_span_covers_the_text_of_its_own_expression(
    bare: Callable[[object], object], tree: Expr
) -> None:
    text = print_expr(tree)
    whole = parse(text)
    assert text[whole.span.start : whole.span.end] == text
    within = {id(n.selector) for n in walk(whole) if isinstance(n, MatrixSelector)}
    for node in walk(whole):
        if id(node) not in within:
            assert bare(parse(text[node.span.start : node.span.end])) == bare(node)


@QUICK
@given(trees, st.integers(0, 100_000), st.integers(0, 10**7))
def test_resolved_trees_have_literal_durations_or_fail_at_a_place(
    tree: Expr, step_ms: int, range_ms: int
) -> None:
    text = print_expr(tree)
    whole = parse(text)
    flags = {feature.flag for feature in features(whole)}
    try:
        resolved = resolve(whole, step_ms=step_ms, range_ms=range_ms)
    except DurationExpressionError as error:
        start, end = error.span
        if "promql-duration-expr" not in flags or not 0 <= start < end <= len(text):
            raise
        return
    assert all(one.expr is None for node in walk(resolved) for one in durations_of(node))
    assert (resolved is whole) == ("promql-duration-expr" not in flags)


PIECES = [
    "x", "rate", "sum", "by", "on", "group_left", "ignoring", "bool", "and", "or", "unless",
    "offset", "start", "(", ")", "[", "]", "{", "}", ",", "=", "==", "=~", "!~", "!=", ">", "+",
    "-", "*", "^", "%", "@", ":", "5m", "5", "1e", ".", "0x", '"a"', "'", '"', "`", "\\", "#",
    "\n", " ", "é", "“", "\u00a0", "$__interval", "&&", "!", "é{", "inf", "nan", "5min", "1.5h",
    "quantile", "topk", "label_replace", "step", "step()", "min_of", "anchored",
    "smoothed", "fill", "fill_left(", "fill (1)", "info",
    "limitk", "</", ">/", "\x00", "x[5m]", "{a='b'}",
]  # fmt: skip


def _problems(text: str) -> tuple[Problem, ...]:
    try:
        parse(text)
    except ProblemsError as error:
        return error.problems or (Problem(Source("", ""), NOWHERE, ""),)
    return ()


def _check_problems(text: str) -> None:
    for problem in _problems(text):
        assert 0 <= problem.span.start <= problem.span.end <= len(text)
        assert problem.message
        assert "\n" not in problem.message + problem.hint
        assert problem.render()


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_tokens_in_any_order_raise_located_problems_only(pieces: list[str]) -> None:
    _check_problems("".join(pieces))
    _check_problems(" ".join(pieces))


@QUICK
@given(st.text(max_size=40))
def test_any_text_raises_located_problems_only(text: str) -> None:
    _check_problems(text)


@QUICK
@given(trees, st.data())
def test_a_damaged_expression_raises_located_problems_only(tree: Expr, data: st.DataObject) -> None:
    text = print_expr(tree)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 3)))
    _check_problems(text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:])
