from __future__ import annotations

import pytest

from rules.promql.ast import (
    Aggregate,
    At,
    Binary,
    Call,
    Duration,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorMatching,
    VectorSelector,
)
from rules.promql.duration_expressions import resolve
from rules.promql.features import features
from rules.promql.parser import MAX_HEIGHT, MAX_NESTING, parse
from rules.promql.printer import format as print_expr
from rules.promql.reach import reach_ms
from rules.promql.types import type_of
from rules.promql.walk import selectors, walk
from rules.source import ProblemsError, Span


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a or b and c", "(a or (b and c))"),
        ("a and b unless c", "((a and b) unless c)"),
        ("a == b + c", "(a == (b + c))"),
        ("a > b > c", "((a > b) > c)"),
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a ^ b ^ c", "(a ^ (b ^ c))"),
        ("a * b ^ c", "(a * (b ^ c))"),
        ("a atan2 b % c", "((a atan2 b) % c)"),
        ("-a ^ b", "(-(a ^ b))"),
        ("-a * b", "((-a) * b)"),
        ("a ^ -b * c", "((a ^ (-b)) * c)"),
        ("a ^ -b ^ c", "(a ^ (-(b ^ c)))"),
        ("a OR b And c", "(a or (b and c))"),
        ("-a offset 5m", "(-a offset 5m)"),
    ],
)
def test_operators_bind_as_in_prometheus(text: str, grouped: str) -> None:
    assert _grouped(parse(text)) == grouped


def _grouped(expr: Expr) -> str:
    match expr:
        case Binary(lhs=lhs, op=op, rhs=rhs):
            return f"({_grouped(lhs)} {op} {_grouped(rhs)})"
        case Unary(op=op, expr=inner):
            return f"({op}{_grouped(inner)})"
        case _:
            return print_expr(expr)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1_000", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        ("0x1F", 31.0),
        ("0x_1f", 31.0),
        ("010", 8.0),
        ("08", 8.0),
        ("-3", -3.0),
        ("--3", 3.0),
        ("+Inf", float("inf")),
        ("-inf", float("-inf")),
        ("5m", 300.0),
        ("-1h30m", -5400.0),
        ("1ms", 0.001),
    ],
)
def test_numbers_are_read_as_go_reads_them(text: str, value: float) -> None:
    expr = parse(text)
    assert isinstance(expr, NumberLiteral)
    assert expr.value == value


def test_nan_is_a_number() -> None:
    assert print_expr(parse("nAn")) == "NaN"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\n\"b\""', 'a\n"b"'),
        (r"'it\'s'", "it's"),
        (r"`a\d`", r"a\d"),
        ("`a\nb`", "a\nb"),
        (r'"\x41\101\u00e9\U0001F600"', "AAé😀"),
        (r'"\xc3\xa9"', "é"),
        ('"# no comment"', "# no comment"),
    ],
)
def test_strings_take_the_escapes_of_go(text: str, value: str) -> None:
    expr = parse(text)
    assert type_of(expr) is ValueType.STRING
    assert getattr(expr, "value", None) == value


def test_a_selector_keeps_every_matcher_with_its_span() -> None:
    text = """http_requests{job=~"a|b", 'lab.el'!="x",} # trailing"""
    selector = parse(text)
    assert isinstance(selector, VectorSelector)
    assert selector.name == "http_requests"
    found = [(m.label, m.op, m.value) for m in selector.matchers]
    assert found == [
        ("__name__", "=", "http_requests"),
        ("job", "=~", "a|b"),
        ("lab.el", "!=", "x"),
    ]
    spans = [text[m.span.start : m.span.end] for m in selector.matchers]
    assert spans == ["http_requests", 'job=~"a|b"', """'lab.el'!="x\""""]


def test_a_quoted_name_in_braces_names_the_metric() -> None:
    selector = next(selectors(parse('{"my.metric", "a b"="c"}')))
    assert selector.name is None
    assert [(m.label, m.value) for m in selector.matchers] == [
        ("__name__", "my.metric"),
        ("a b", "c"),
    ]


@pytest.mark.parametrize(
    "name",
    ["sum", "by", "without", "and", "or", "unless", "offset", "start", "end", "fill", "step",
     "smoothed", "rate", "job:x:rate5m", ":x", "_", "infinity"],
)  # fmt: skip
def test_most_keywords_may_name_a_metric(name: str) -> None:
    selector = parse(f"{name} + {name}{{a='b'}}")
    assert [s.name for s in selectors(selector)] == [name, name]


def test_keywords_may_name_labels() -> None:
    text = 'sum by (on, bool, sum, start, "my label") (x{by="a", inf="b", without="c"})'
    expr = parse(text)
    assert isinstance(expr, Aggregate)
    assert expr.grouping == ("on", "bool", "sum", "start", "my label")


def test_modifiers_come_in_any_order() -> None:
    one = parse("rate(x[5m] offset -1m @ 1.5)")
    other = parse("rate(x[5m] @ 1.5 offset -1m)")
    for expr in (one, other):
        (matrix,) = [node for node in walk(expr) if isinstance(node, MatrixSelector)]
        assert matrix.range.milliseconds == 300_000
        offset, at = matrix.selector.offset, matrix.selector.at
        assert offset is not None
        assert offset.milliseconds == -60_000
        assert at is not None
        assert at.anchor == 1500


@pytest.mark.parametrize(
    ("text", "anchor"),
    [("x @ 10", 10_000), ("x @ -1.0006", -1001), ("x @ start()", "start"), ("x @ END()", "end")],
)
def test_at_is_kept_in_milliseconds(text: str, anchor: object) -> None:
    selector = parse(text)
    assert isinstance(selector, VectorSelector)
    assert isinstance(selector.at, At)
    assert selector.at.anchor == anchor


def test_numbers_are_seconds_where_a_duration_stands() -> None:
    expr = parse("max_over_time(x[300:0.5] offset 60)")
    (subquery,) = [node for node in walk(expr) if isinstance(node, Subquery)]
    assert subquery.range.milliseconds == 300_000
    assert subquery.step is not None
    assert subquery.step.milliseconds == 500
    assert subquery.offset is not None
    assert subquery.offset.milliseconds == 60_000


def test_subqueries_nest() -> None:
    expr = parse("max_over_time(rate(x[5m])[1h:1m] @ end())")
    assert isinstance(expr, Call)
    (subquery,) = expr.args
    assert isinstance(subquery, Subquery)
    assert subquery.step == Duration(Span(29, 31), 60_000)


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("a + b", VectorMatching("one-to-one", on=False, labels=())),
        ("a + on () b", VectorMatching("one-to-one", on=True, labels=())),
        ("a and b", VectorMatching("many-to-many", on=False, labels=())),
        ("a and ignoring (x) b", VectorMatching("many-to-many", on=False, labels=("x",))),
        ("a * on (x) group_left b", VectorMatching("many-to-one", on=True, labels=("x",))),
        (
            "a == bool ignoring (x,) group_right (y, z,) b",
            VectorMatching("one-to-many", on=False, labels=("x",), include=("y", "z")),
        ),
        ("a + 1", None),
        ("1 + a", None),
        ("1 + 1", None),
    ],
)
def test_vector_matching_is_set_only_between_vectors(
    text: str, matching: VectorMatching | None
) -> None:
    expr = parse(text)
    assert isinstance(expr, Binary)
    assert expr.matching == matching


def test_by_stands_before_or_after_the_arguments() -> None:
    before, after = parse("sum by (a) (x)"), parse("SUM(x) BY (a)")
    assert isinstance(before, Aggregate)
    assert isinstance(after, Aggregate)
    assert before.grouping == after.grouping == ("a",)
    assert after.span == Span(0, 13)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "(" * 10_000,
        "-" * 10_000 + "x",
        "abs(" * 10_000,
        "sum by (a) (" * 10_000,
        "x" + " + x" * 10_000,
        "1" + " ^ 1" * 10_000,
        "x" + "[5m:]" * 10_000,
        "{" * 10_000,
        "[" * 10_000,
    ],
    ids=lambda text: str(text)[:8],
)
def test_depth_is_bounded_with_a_located_error(text: str) -> None:
    with pytest.raises(ProblemsError):
        parse(text)


LONG = {
    "or": "x" + " or x" * (MAX_HEIGHT - 1),
    "scalars": "1" + " + 1" * (MAX_HEIGHT - 1),
    "powers": "1" + " ^ 1" * (MAX_HEIGHT - 1),
    "signs": "-" * (MAX_HEIGHT - 1) + "x",
    "parentheses": "(" * MAX_NESTING + "x" + ")" * MAX_NESTING,
    "calls": "abs(" * MAX_NESTING + "x" + ")" * MAX_NESTING,
    "aggregations": "sum by (a) (" * MAX_NESTING + "x" + ")" * MAX_NESTING,
    "subqueries": "last_over_time(" * MAX_NESTING + "x" + "[1h:5m])" * MAX_NESTING,
    "mixed": "sum(1 + rate(" * (MAX_NESTING // 2) + "x[5m]" + "))[5m:1m]" * (MAX_NESTING // 2 - 1)
    + "))",
    "durations": "x[" + "(" * 5_000 + "5m" + " + 1m)" * 5_000 + "]",
}  # fmt: skip


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_and_deep_expressions_cost_no_stack(text: str) -> None:
    tree = parse(text)
    printed = print_expr(tree)
    assert print_expr(parse(printed)) == printed
    assert sum(1 for _ in walk(tree)) >= 1
    assert features(resolve(tree, step_ms=0, range_ms=0)) == ()
    assert reach_ms(tree, 300_000) >= 0
    assert type_of(tree) in ValueType


def test_wide_expressions_are_no_problem() -> None:
    listed = "|".join(f"node{i}" for i in range(5_000))
    parse(f'x{{node=~"{listed}"}}')
    parse("label_join(x, 'a', ','" + ", 'b'" * 5_000 + ")")


def test_what_is_too_deep_is_refused_where_it_gets_so() -> None:
    with pytest.raises(ProblemsError, match="brackets are nested more than 2,000 levels") as caught:
        parse("(" * (MAX_NESTING + 1) + "x" + ")" * (MAX_NESTING + 1))
    assert caught.value.problems[0].span == Span(MAX_NESTING, MAX_NESTING + 1)
    with pytest.raises(ProblemsError, match="nested more than 10,000 levels deep") as caught:
        parse("x" + "+x" * MAX_HEIGHT)
    assert caught.value.problems[0].span == Span(2 * MAX_HEIGHT - 1, 2 * MAX_HEIGHT)
