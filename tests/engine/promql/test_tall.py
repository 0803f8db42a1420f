"""Expressions higher than Python's stack give what short ones give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.promql import tall
from engine.promql.engine import EvaluationError
from engine.promql.value import Axis, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

SERIES = """10s
 x{a="1"} 0 1 2 3 4 5 6
 x{a="2"} 1 1 1 1 1 1 1
 y{b="1"} 7 7 7 7 7 7 7
"""
AXIS = Axis.span(30_000, 60_000, 10_000)
TIMES = range(30, 61, 10)
X = {
    '{a="1"}': {30: 3.0, 40: 4.0, 50: 5.0, 60: 6.0},
    '{a="2"}': dict.fromkeys(TIMES, 1.0),
}


@pytest.fixture
def data(load: Callable[[str], Data]) -> Data:
    return load(SERIES)


def _plus(number: float) -> dict[str, dict[int, float]]:
    return {
        labels: {time: value + number for time, value in row.items()} for labels, row in X.items()
    }


def test_a_chain_of_five_thousand_operators(data: Data) -> None:
    assert data.points("x" + " + 1" * 5_000, AXIS) == _plus(5_000)
    chain = "x" + " or y" * 5_000
    assert data.points(chain, AXIS).keys() == data.points("x or y", AXIS).keys()
    assert data.points("(" + "".join("x unless y and " for _ in range(2_500)) + "x) + 0", AXIS) == X
    filtered = "x > 2" + " > 2" * 5_000
    assert data.at(40, filtered) == {'x{a="1"}': 4.0}
    sum_of_ones = data.on("1" + " + 1" * 5_000, AXIS).value
    assert isinstance(sum_of_ones, Scalar)
    assert set(sum_of_ones.values.tolist()) == {5_001.0}


@pytest.mark.parametrize(
    ("opening", "inner", "closing", "number"),
    [
        ("(", "x + 0", ")", 0),
        ("abs(", "x", ")", 0),
        ("--", "x + 0", "", 0),
        ("(1 + ", "x", ")", 1_000),
        ("sum by (a) (1 + ", "x", ")", 1_000),
        ("label_replace(1 + ", "x", ', "c", "", "", "")', 1_000),
    ],
)
def test_a_thousand_brackets(
    data: Data, opening: str, inner: str, closing: str, number: float
) -> None:
    deep = opening * 1_000 + inner + closing * 1_000
    assert data.points(deep, AXIS) == _plus(number)


def test_tall_expressions_within_subqueries(data: Data) -> None:
    inner = "sum by (a) (x" + " + 1" * 500 + ")"
    outer = f"max_over_time(({inner})[20s:10s])" + " + 1" * 500
    assert data.points(outer, AXIS) == {
        '{a="1"}': {30: 1003.0, 40: 1004.0, 50: 1005.0, 60: 1006.0},
        '{a="2"}': dict.fromkeys(TIMES, 1001.0),
    }
    nested = "last_over_time(" * 25 + "x" + "[20s:10s])" * 25
    assert data.at(60, nested) == {'x{a="1"}': 6.0, 'x{a="2"}': 1.0}


def test_subqueries_too_deep_are_one_located_error(data: Data) -> None:
    with pytest.raises(EvaluationError, match="subqueries are nested too deep"):
        data.at(60, "last_over_time(" * 1_500 + "x" + "[20s:10s])" * 1_500)


EXPRESSIONS = (
    "topk(1, x) or -sum by (b) (y) > bool 3",
    "sum(rate(x[30s])) / on () group_left () (y ^ 2)",
    "histogram_quantile(0.5, x) or label_join(x, 'c', '-', 'a') + scalar(y)",
    "max_over_time((x + y or x * 2)[30s:10s]) unless absent(z)",
    "clamp(x, 1, scalar(max(y)) - 3) + time() % 7",
    "predict_linear(x[40s], -(-60)) != 3",
    "quantile by (a) (scalar(y) / 14, x)",
)


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_how_far_apart_the_levels_are_changes_no_result(
    data: Data, monkeypatch: pytest.MonkeyPatch, expr: str, levels: int
) -> None:
    usual = data.points(expr, AXIS)
    monkeypatch.setattr(tall, "LEVELS", levels)
    tall._shape_of.cache_clear()
    assert data.points(expr, AXIS) == usual
    tall._shape_of.cache_clear()
