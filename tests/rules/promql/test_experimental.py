"""What Prometheus reads behind feature flags: how it parses, prints and is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rules.promql.ast import (
    Binary,
    Call,
    Duration,
    MatrixSelector,
    NumberLiteral,
    Subquery,
    VectorSelector,
)
from rules.promql.duration_expressions import DurationExpressionError, durations, resolve
from rules.promql.features import features
from rules.promql.parser import parse
from rules.promql.printer import format as print_expr
from rules.promql.walk import walk
from rules.source import ProblemsError

if TYPE_CHECKING:
    from rules.promql.ast import Expr

# Written, and as printed where that differs.
READ = {
    "x[5m * 2]": "",
    "x[2m*(10+5)]": "x[2m * (10 + 5)]",
    "x[-5m+35m]": "x[-5m + 35m]",
    "x[((1h))]": "x[(1h)]",
    "x[1+(STep()-5)*2]": "x[1 + (step() - 5) * 2]",
    "x[max_of(min_of(step()+1,1h),1ms)]": "x[max_of(min_of(step() + 1, 1h), 1ms)]",
    "x[29s+1s:((((8 - 2) / 3) * 7s) % 4) + 8000ms]": (
        "x[29s + 1s:((((8 - 2) / 3) * 7s) % 4) + 8s]"
    ),
    "x[2 ^ 3 ^ 2]": "",
    "x[step():range()]": "",
    "x offset -(min_of(step(), 2s) - 5)": "",
    "x offset +range()": "x offset range()",
    "x offset -step()": "",
    "x[5m] anchored": "",
    "x smoothed": "",
    "rate(x[5m] smoothed @ end() offset 1m)": "",
    "rate(x[5m] offset 1m smoothed)": "rate(x[5m] smoothed offset 1m)",
    "anchored": "",
    "a + fill(0) b": "a + fill (0) b",
    "a + fill_right(-Inf) fill_left(+1) b": "a + fill_left (1) fill_right (-Inf) b",
    "a + fill(NaN) b": "a + fill_left (NaN) fill_right (NaN) b",
    "a / on (x) group_left (y) fill_right (1m) b": "a / on (x) group_left (y) fill_right (60) b",
    "a == bool fill (30) b": "",
    "a + fill": "",
    "fill_left + fill_right": "",
    "limitk(5, x)": "",
    "limit_ratio by (a) (-0.5, x)": "limit_ratio by (a) (-0.5, x)",
    "info(x)": "",
    'info(x, {data=~".+"})': "",
    "info(x, {})": "info(x, {})",
    'info(x, {__name__="build_info"})': "",
    'histogram_quantiles(x, "q", 0.5, 0.9)': "",
    "start() + end() + step() + range()": "",
    'step{a="b"} / range': "",
    "min_of(1, max_of(2, 3))": "",
    "min_of": "",
    "start_timestamp(x)": "",
    "x </ 5": "",
    "x >/ 5 </ y": "",
    '{"metric.name", "label.with.dots"="x"}': '{"label.with.dots"="x",__name__="metric.name"}',
    'sum by ("a.b") (x) / on ("a.b") group_left ("c d") y': "",
}


@pytest.mark.parametrize("text", READ)
def test_it_is_read_and_printed_as_itself(text: str) -> None:
    printed = print_expr(parse(text))
    assert printed == (READ[text] or text)
    assert print_expr(parse(printed)) == printed


REFUSED = {
    "x[0]": "the range must be longer than 0",
    "x[-5m]": "a duration must be longer than 0",
    "x[5m:0]": "the step must be longer than 0",
    "x[1m / 0]": "division by zero in a duration",
    "x[step() % (0)]": "modulo by zero in a duration",
    "x[]": 'unexpected "]" in range, expected a duration',
    "x[5m *]": 'unexpected "]" in range, expected a duration',
    "x[(5m]": 'unexpected "]" in "(", expected ")"',
    "x[min_of(1)]": 'unexpected ")" in the arguments of min_of, expected ","',
    "x[min_of(1, 2, 3)]": 'unexpected "," in range, expected ")"',
    "x[(1, 2)]": 'unexpected "," in range, expected ")"',
    "x[min(1, 2)]": 'unexpected "min" in range, expected a duration',
    "x[y]": 'unexpected "y" in range, expected a duration',
    "x[step]": 'unexpected "step" in range, expected a duration',
    "x[step(1)]": 'unexpected number 1 in range, expected ")"',
    "x[5m > 1m]": 'unexpected ">" in range, expected ":" or "]"',
    "x offset --5m": 'unexpected "-" in offset, expected a duration',
    "x offset": "unexpected end of expression in offset, expected a duration",
    "x offset step() offset 5m": "offset is given twice",
    "x[5m] anchored smoothed": "anchored and smoothed cannot be used together",
    "x[5m:1m] anchored": "anchored is not supported for a subquery",
    "sum(x) smoothed": "smoothed is not supported for this expression",
    "1 + fill (0) x": "fill is only allowed between instant vectors",
    "x or fill (0) y": 'fill is not allowed on "or"',
    "x + fill (y) z": 'unexpected "y" in fill, expected a number',
    "x + fill (1": '"(" is never closed: expected ")"',
    "x + fill (1) fill_left (2) y": "fill_left does not go with the fill before it",
    "x + fill_left (1) fill_left (2) y": "fill_left does not go with the fill before it",
    "x + fill (0) on (a) y": 'unexpected "on", expected an expression after "+"',
    "limitk(x)": "limitk takes 2 arguments (scalar, instant vector), got 1",
    "limit_ratio('a', x)": "limit_ratio expects a scalar as its first argument, got a string",
    "info(x, y)": "info expects only label matchers as its 2nd argument, got y",
    "info(x, ({a='b'}))": ("info expects only label matchers as its 2nd argument, got ({a='b'})"),
    "info({}, {})": (
        "a selector expects at least one matcher that does not match the empty string"
    ),
    "histogram_quantiles(x, 'q')": "histogram_quantiles takes 3 to 12 arguments",
    "x </ bool 5": 'bool is only allowed on comparisons, not on "</"',
    'sum by ("\\xff") (x)': 'invalid label name "\\xff"',
    'sum by ("") (x)': 'unexpected string "" in the labels of by, expected a label name or ")"',
}


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_as_by_prometheus(text: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        parse(text)
    assert caught.value.problems[0].message.startswith(REFUSED[text])


def _only(expr: Expr) -> Duration:
    (found,) = (duration for node in walk(expr) for duration in durations(node))
    return found


# As in Prometheus' duration_expression.test, for a query with a step of 10 s over 60 s.
VALUES_MS = {
    "x[26m+4m]": 1_800_000,
    "x[60*30]": 1_800_000,
    "x[24m+((1.5*2m)+2m)]": 1_740_000,
    "x[-5m+35m]": 1_800_000,
    "x[1h30m % 1h]": 1_800_000,
    "x[30m1s-30m1s % 1m]": 1_800_000,
    "x[2 ^ 3 ^ 2]": 512_000,
    "x[(-2) ^ 2]": 4_000,
    "x[5-2^2]": 1_000,
    "x[step()+1ms]": 10_001,
    "x[1+(step()-5)*2]": 11_000,
    "x[range()]": 60_000,
    "x[0.57]": 570,
    "x[0.57*1]": 570,
    "x offset -(20*(((((8 - 2) / 3) * 7s) % 4) + 8000ms))": -200_000,
    "x offset (-2 ^ 2)": -4_000,
    "x offset max_of(3s, min_of(step(), 1s))": 3_000,
    "x offset -(min_of(step(), 2s)-5)": 3_000,
    "x offset (step() - 10)": 0,
    "x offset -7": -7_000,
}


@pytest.mark.parametrize("text", VALUES_MS)
def test_a_duration_is_worked_out_for_the_query(text: str) -> None:
    resolved = resolve(parse(text), step_ms=10_000, range_ms=60_000)
    assert _only(resolved).milliseconds == VALUES_MS[text]
    assert _only(resolved).expr is None


# In an instant query, with the text at fault.
WITHOUT_VALUE = {
    "x[step()]": ("the duration must be greater than 0; in this query it is 0 seconds", "step()"),
    "rate(x[5m - 1h])": ("the duration must be greater than 0", "5m - 1h"),
    "x[1h:range() * 2]": ("the duration must be greater than 0", "range() * 2"),
    "x[1h / step()]": ("division by zero in a duration", "/"),
    "x[1h % (step() * 2)]": ("modulo by zero in a duration", "%"),
    "x[10 ^ 400]": ("the duration is out of range", "10 ^ 400"),
    "x[(-1) ^ 0.5]": ("the duration is out of range", "(-1) ^ 0.5"),
    "x offset (200y * 2)": ("the duration is out of range", "(200y * 2)"),
    "x[1 / 1000000]": ("the duration is shorter than a millisecond", "1 / 1000000"),
}


@pytest.mark.parametrize("text", WITHOUT_VALUE)
def test_a_duration_without_a_value_is_an_error_at_its_place(text: str) -> None:
    message, place = WITHOUT_VALUE[text]
    with pytest.raises(DurationExpressionError) as caught:
        resolve(parse(text), step_ms=0, range_ms=0)
    assert str(caught.value).startswith(message)
    assert text[caught.value.span.start : caught.value.span.end] == place


def test_resolving_changes_nothing_but_durations() -> None:
    plain = parse("sum by (a) (rate(x[5m] offset 1m)) / -avg_over_time(y[1h:1m])")
    assert resolve(plain, step_ms=1, range_ms=1) is plain
    text = "topk(2, (-sum(deriv(rate(x[{}] anchored)[1h:{}] offset {})))) and on () info(y, {{}})"
    written = resolve(
        parse(text.format("step()", "step() * 2", "(range())")), step_ms=60_000, range_ms=3_600_000
    )
    assert print_expr(written) == print_expr(parse(text.format("1m", "2m", "1h")))


def test_a_literal_duration_has_no_expression() -> None:
    match parse("x[5m:1m] offset -1h"):
        case Subquery(expr=VectorSelector(), range=wide, step=step, offset=offset):
            assert wide == Duration(wide.span, 300_000)
            assert step == Duration(step.span, 60_000) if step else False
            assert offset == Duration(offset.span, -3_600_000) if offset else False
        case _:
            pytest.fail("no subquery")


def test_a_duration_expression_is_a_tree_of_seconds() -> None:
    expr = parse("x[2m * (step() + 1)]")
    assert isinstance(expr, MatrixSelector)
    written = expr.range.expr
    assert isinstance(written, Binary)
    assert isinstance(written.lhs, NumberLiteral)
    assert (written.lhs.value, written.lhs.duration) == (120.0, True)
    assert [node.func for node in walk(written) if isinstance(node, Call)] == ["step"]
    # What a rule, an instant query, makes of it.
    assert expr.range.milliseconds == 120_000


FLAGS = {
    "x[5m * 2]": ("5m * 2", "promql-duration-expr", 2),
    "x offset (5m)": ("(5m)", "promql-duration-expr", 9),
    "x[1h:step()]": ("step()", "promql-duration-expr", 5),
    "rate(x[5m] anchored)": ("anchored", "promql-extended-range-selectors", 5),
    "x smoothed": ("smoothed", "promql-extended-range-selectors", 0),
    "a + fill (0) b": ("fill", "promql-binop-fill-modifiers", 2),
    "a + fill_left (0) b": ("fill_left", "promql-binop-fill-modifiers", 2),
    "limitk(1, x)": ("limitk", "promql-experimental-functions", 0),
    "info(x)": ("info", "promql-experimental-functions", 0),
    "x > step()": ("step", "promql-experimental-functions", 4),
}


@pytest.mark.parametrize("text", FLAGS)
def test_each_use_is_named_with_its_flag(text: str) -> None:
    (feature,) = features(parse(text))
    assert (feature.name, feature.flag, feature.span.start) == FLAGS[text]


def test_stable_promql_needs_no_flag() -> None:
    assert features(parse('sum by ("a.b") (rate({"x.y"}[300] offset -5m @ 1)) </ 5')) == ()
