"""The evaluator against a slow, obvious one: every step of every axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.value import Axis, Scalar, Vector
from rules.promql.parser import parse
from tests.reference.evaluator import Query, RefusedError, evaluate_at
from tests.reference.grammar import (
    CALM,
    FUTURE,
    SERIES,
    Rows,
    exact,
    expressions,
    extended,
    filled,
    statistics,
    stored,
)

if TYPE_CHECKING:
    from engine.promql.value import Result
    from tests.promqltest.storage import MemoryStorage

STEP_MS, END_MS = 7_000, 160_000
TIMES = range(0, END_MS + 1, STEP_MS)
Column = dict[str, float]


def slow(expr: str, storage: MemoryStorage, options: Options, *, rule: bool) -> list[Column] | None:
    """Each step's result; None if one is refused."""
    tree = parse(expr)
    columns: list[Column] = []
    for time in TIMES:
        first, last = (time, time) if rule else (0, TIMES[-1])
        visible = time if rule else math.inf
        query = Query(storage, options, time, first, last, visible)
        try:
            value = evaluate_at(query, tree)
        except RefusedError:
            return None
        assert not isinstance(value, str)
        named = value.items() if isinstance(value, dict) else [("scalar", value)]
        columns.append({str(labels): number for labels, number in named})
    return columns


def fast(expr: str, storage: MemoryStorage, options: Options, *, rule: bool) -> list[Column] | None:
    axis = Axis.span(0, END_MS, STEP_MS, rule=rule)
    try:
        result = evaluate(parse(expr), axis, storage, options)
    except EvaluationError:
        return None
    return [column(result, step) for step in range(len(TIMES))]


def column(result: Result, step: int) -> Column:
    value = result.value
    if isinstance(value, Scalar):
        return {"scalar": float(value.values[step])}
    assert isinstance(value, Vector)
    rows = zip(value.labels, value.values[:, step].tolist(), value.present[:, step], strict=True)
    return {str(labels): number for labels, number, here in rows if here}


def same(one: float, other: float, *, to_the_bit: bool) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if to_the_bit or math.isinf(one) or math.isinf(other):
        return one == other
    # What is left of numbers around 1e9 (squared, for a variance) after they cancel.
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)


def assert_alike(series: Rows, expr: str, *, rule: bool, delayed: bool, bits: bool) -> None:
    storage, options = stored(series), Options(delayed_name_removal=delayed)
    expected = slow(expr, storage, options, rule=rule)
    got = fast(expr, storage, options, rule=rule)
    if expected is None or got is None:
        assert expected is got, "one of both refused"
        return
    for time, wanted, found in zip(TIMES, expected, got, strict=True):
        assert set(wanted) == set(found), f"other series at {time} ms"
        for labels, value in wanted.items():
            assert same(value, found[labels], to_the_bit=bits), (
                f"{labels} at {time} ms: {found[labels]!r} for {value!r}"
            )


@pytest.mark.parametrize("delayed", [True, False])
@settings(max_examples=60, deadline=None)
@given(series=SERIES, expr=exact())
def test_what_is_exact_equals_the_slow_evaluator_to_the_bit(
    series: Rows, expr: str, *, delayed: bool
) -> None:
    assert_alike(series, expr, rule=False, delayed=delayed, bits=True)


@settings(max_examples=120, deadline=None)
@given(series=SERIES, expr=expressions())
def test_every_expression_equals_the_slow_evaluator(series: Rows, expr: str) -> None:
    assert_alike(series, expr, rule=False, delayed=True, bits=False)


@settings(max_examples=50, deadline=None)
@given(series=SERIES, expr=exact(FUTURE))
def test_a_rule_sees_what_the_slow_evaluator_sees_without_later_samples(
    series: Rows, expr: str
) -> None:
    assert_alike(series, expr, rule=True, delayed=True, bits=True)


@pytest.mark.parametrize("rule", [False, True])
@settings(max_examples=80, deadline=None)
@given(series=SERIES, expr=extended())
def test_anchored_and_smoothed_equal_the_slow_evaluator(
    series: Rows, expr: str, *, rule: bool
) -> None:
    assert_alike(series, expr, rule=rule, delayed=True, bits=False)


@pytest.mark.parametrize("delayed", [True, False])
@settings(max_examples=60, deadline=None)
@given(series=SERIES, expr=filled())
def test_filled_sides_equal_the_slow_evaluator(series: Rows, expr: str, *, delayed: bool) -> None:
    assert_alike(series, expr, rule=False, delayed=delayed, bits=True)


@pytest.mark.parametrize("rule", [False, True])
@settings(max_examples=150, deadline=None)
@given(series=CALM, expr=statistics())
def test_statistics_equal_the_slow_evaluator(series: Rows, expr: str, *, rule: bool) -> None:
    assert_alike(series, expr, rule=rule, delayed=True, bits=False)
