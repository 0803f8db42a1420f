"""Parameters with which no evaluation can succeed are told when rules are loaded."""

from __future__ import annotations

import math

import pytest

from rules.loader import load_source
from rules.promql.parameters import constant
from rules.promql.parser import parse
from rules.source import ProblemsError, Source

BEFORE = "groups:\n- name: a\n  rules:\n  - record: b\n    expr: "
REFUSED = {
    "seasonal_zscore(x[8d], 0)": ("0", "at least a thousandth and at most a third of the window"),
    "seasonal_zscore(x[8d], 0.9)": ("0.9", "691.2 to 230400 seconds, got: 0.9"),
    "seasonal_zscore(x[8d], NaN)": ("NaN", "got: nan"),
    "seasonal_zscore(x[8d], -(1 + 1))": ("-(1 + 1)", "got: -2"),
    "seasonal_zscore(x[8d], 9d)": ("9d", "got: 777600"),
    "seasonal_zscore(x[1h], 1h)": ("1h", "a third of the window, 3.6 to 1200 seconds"),
    "seasonal_zscore(x[1h:1m], 1h)": ("1h", "a third of the window, 3.6 to 1200 seconds"),
    "seasonal_zscore(x[30m * 2], 0 / 0)": ("0 / 0", "got: nan"),
    "straggler_score by (a) (1, v)": ("1", "groups of 3 elements at least, not of 1"),
    "straggler_cost(NaN, v)": ("NaN", "not of nan"),
    "straggler_slowdown(-3, v)": ("-3", "not of -3"),
    "straggler_score(3.5, v)": ("3.5", "a whole number of elements, not of 3.5"),
    "straggler_score(Inf, v)": ("Inf", "a whole number of elements, not of inf"),
    "ewma_over_time(x[1h], 0)": ("0", "invalid half-life"),
    "ewma_zscore(x[1h], NaN)": ("NaN", "invalid half-life"),
    "holt_band_over_time(x[1h], 1, 0.1)": ("1", "invalid smoothing factor"),
    "holt_trend_over_time(x[1h], 0.1, NaN)": ("NaN", "invalid trend factor"),
    "holt_forecast_over_time(x[1h], -1, 0.1)": ("-1", "invalid smoothing factor"),
    "trend_over_time(x[1d:1s])": ("x[1d:1s]", "this window has 86,400 of them: at most 1,000"),
    "trend_pvalue_over_time(x[1d:1s])": ("x[1d:1s]", "at most 1,000"),
}


@pytest.mark.parametrize("expr", REFUSED)
def test_a_constant_that_no_evaluation_takes_is_refused_at_its_place(expr: str) -> None:
    text = f"{BEFORE}{expr} > 1\n"
    loaded = load_source(Source("a.yaml", text))
    (problem,) = loaded.problems
    part, message = REFUSED[expr]
    assert text[problem.span.start : problem.span.end] == part
    assert problem.severity == "error"
    assert message in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    "expr",
    [
        "seasonal_zscore(x[8d], 1d)",
        "seasonal_zscore(x[1h], 20m)",
        "seasonal_zscore(x[1h], scalar(y))",
        "straggler_score by (a) (8, v)",
        "straggler_score(scalar(y), v)",
        "ewma_over_time(x[1h], Inf)",
        "ewma_over_time(x[1h], 5m)",
        "holt_band_over_time(x[1h], 0.3, 1 / 10)",
        "trend_over_time(x[1d])",
        "trend_over_time(x[1d:5m])",
        "trend_over_time(x[1000s:1s])",
        "trend_over_time((x > 5)[1d:1s])",
    ],
)
def test_what_may_succeed_is_loaded(expr: str) -> None:
    assert load_source(Source("a.yaml", f"{BEFORE}{expr}\n")).problems == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [("-(2 * 3) - 1", -7), ("1 / 0", math.inf), ("-1 / 0", -math.inf), ("1d / 2", 43200)],
)
def test_arithmetic_of_numbers_is_a_constant(text: str, value: float) -> None:
    assert constant(parse(text)) == value


@pytest.mark.parametrize("text", ["scalar(x)", "time() / 2", "2 ^ 3"])
def test_what_is_not_worked_out_is_none(text: str) -> None:
    assert constant(parse(text)) is None


@pytest.mark.parametrize(
    ("expr", "hint"),
    [
        (
            "seasonal_zscore(x[8d])",
            "write seasonal_zscore(x[8d], 86400): the period is in seconds",
        ),
        (
            "ewma_over_time(x[1h])",
            "write ewma_over_time(x[1h], 300): the half-life is in seconds",
        ),
        (
            "distribution_shift(x[5m], 5)",
            "give a selector with a range, as in distribution_shift(x[5m], x[1h] offset 1d)",
        ),
        (
            "quantile_over_time(0.9, 5)",
            "give a selector with a range, as in quantile_over_time(0.9, x[5m])",
        ),
    ],
)
def test_a_hint_is_a_call_that_makes_sense(expr: str, hint: str) -> None:
    with pytest.raises(ProblemsError) as raised:
        parse(expr)
    assert [problem.hint for problem in raised.value.problems] == [hint]
