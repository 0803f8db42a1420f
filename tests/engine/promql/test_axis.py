"""A whole axis at once gives what each step gives alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.value import Axis, Scalar, Vector
from rules.promql.parser import parse
from tests.promqltest.script import Load, parse_script
from tests.promqltest.storage import MemoryStorage
from tests.reference.grammar import CALM, statistics

if TYPE_CHECKING:
    from engine.promql.value import Result
    from tests.reference.grammar import Rows

SERIES = st.lists(
    st.tuples(
        st.sampled_from(["a_total", "b_total"]),
        st.sampled_from("xy"),
        st.sampled_from("12"),
        st.lists(
            st.sampled_from(["_", "stale", "NaN", "Inf", "0", "1", "2.5", "-3", "7", "1e9"]),
            min_size=1,
            max_size=10,
        ),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row[:3],
)

SELECTORS = st.sampled_from(
    ["a_total", "b_total", '{__name__=~".*_total"}', 'a_total{x="x"}', 'b_total{y!="1"}']
)
MODIFIERS = st.sampled_from(["", " offset 15s"])
FUTURE = st.sampled_from(["", " offset -20s", " @ 40", " @ end()", " @ start() offset 10s"])
RANGE_FUNCTIONS = st.sampled_from(
    """rate increase delta irate idelta changes resets deriv sum_over_time avg_over_time
    min_over_time max_over_time count_over_time stddev_over_time last_over_time
    present_over_time absent_over_time mad_over_time""".split()  # noqa: SIM905
)
FUNCTIONS = st.sampled_from(
    ["abs", "ceil", "sgn", "sqrt", "timestamp", "absent", "sort", "day_of_week"]
)
AGGREGATORS = st.sampled_from(["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"])
GROUPINGS = st.sampled_from(["", " by (x)", " without (y)", " by (__name__)"])
OPERATORS = st.sampled_from(["+", "/", "> bool", "<", "== bool", "and", "or", "unless", "%"])
MATCHINGS = st.sampled_from(["", " on (x)", " ignoring (y)"])


def vectors(modifiers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    selected = st.builds("{}{}".format, SELECTORS, modifiers)
    ranged = st.builds(
        "{}({}[{}]{})".format,
        RANGE_FUNCTIONS,
        SELECTORS,
        st.sampled_from(["20s", "45s"]),
        modifiers,
    )

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("{}({})".format, FUNCTIONS, inner),
            st.builds("{}{} ({})".format, AGGREGATORS, GROUPINGS, inner),
            st.builds("topk{} (1, {})".format, GROUPINGS, inner),
            st.builds("straggler_score{} (3, {})".format, GROUPINGS, inner),
            st.builds("straggler_cost{} ({})".format, GROUPINGS, inner),
            st.builds("quantile{} (0.3, {})".format, GROUPINGS, inner),
            st.builds(
                "({} {}{} {})".format, inner, OPERATORS.filter(str.isalpha), MATCHINGS, inner
            ),
            st.builds("({} {}{} {})".format, inner, OPERATORS, MATCHINGS, inner),
            st.builds("({} * 2)".format, inner),
            st.builds("{}(({})[50s:15s])".format, RANGE_FUNCTIONS, inner),
            st.builds('label_replace({}, "z", "$1", "x", "(x)")'.format, inner),
        )

    return st.recursive(st.one_of(selected, ranged), extend, max_leaves=4)


def stored(series: list[tuple[str, str, str, list[str]]]) -> MemoryStorage:
    lines = [f' {name}{{x="{x}",y="{y}"}} {" ".join(items)}' for name, x, y, items in series]
    (command,) = parse_script("load 10s\n" + "\n".join(lines))
    assert isinstance(command, Load)
    storage = MemoryStorage()
    storage.load(command)
    return storage


def column(result: Result, step: int) -> dict[str, str]:
    """The series present at a step, with their values' every bit."""
    value = result.value
    if isinstance(value, Scalar):
        return {"": repr(value.values.tolist()[step])}
    assert isinstance(value, Vector)
    rows = zip(value.labels, value.values.tolist(), value.present.tolist(), strict=True)
    return {
        str(labels): "NaN" if math.isnan(row[step]) else repr(row[step])
        for labels, row, present in rows
        if present[step]
    }


def assert_alike(expr: str, storage: MemoryStorage, *, rule: bool, delayed: bool) -> None:
    options = Options(delayed_name_removal=delayed)
    tree = parse(expr)
    times = range(0, 130_001, 7_000)
    alone: list[dict[str, str]] = []
    faults = 0
    for time in times:
        axis = Axis(Axis.instant(time).times_ms, 0, rule=rule)
        try:
            alone.append(column(evaluate(tree, axis, storage, options), 0))
        except EvaluationError:
            faults += 1
    axis = Axis.span(0, 130_000, 7_000, rule=rule)
    try:
        together = evaluate(tree, axis, storage, options)
    except EvaluationError:
        assert faults
        return
    assert not faults
    assert [column(together, step) for step in range(len(times))] == alone


@settings(max_examples=150, deadline=None)
@given(series=SERIES, expr=vectors(MODIFIERS), delayed=st.booleans())
def test_a_query_over_a_range_is_its_instants_side_by_side(
    series: list[tuple[str, str, str, list[str]]], expr: str, *, delayed: bool
) -> None:
    assert_alike(expr, stored(series), rule=False, delayed=delayed)


@settings(max_examples=60, deadline=None)
@given(series=SERIES, expr=vectors(FUTURE), delayed=st.booleans())
def test_a_rule_over_an_axis_is_its_evaluations_side_by_side(
    series: list[tuple[str, str, str, list[str]]], expr: str, *, delayed: bool
) -> None:
    assert_alike(expr, stored(series), rule=True, delayed=delayed)


@settings(max_examples=30, deadline=None)
@given(series=SERIES, expr=vectors(FUTURE))
def test_an_axis_without_steps_has_an_empty_result(
    series: list[tuple[str, str, str, list[str]]], expr: str
) -> None:
    axis = Axis.span(10_000, 0, 1_000, rule=True)
    value = evaluate(parse(expr), axis, stored(series)).value
    assert isinstance(value, Vector)
    assert value.values.shape == (0, 0)


@settings(max_examples=100, deadline=None)
@given(series=CALM, expr=statistics())
def test_statistics_over_a_range_are_their_instants_side_by_side(series: Rows, expr: str) -> None:
    assert_alike(expr, stored(series), rule=False, delayed=True)


@settings(max_examples=60, deadline=None)
@given(series=CALM, expr=statistics(FUTURE))
def test_statistics_in_a_rule_are_its_evaluations_side_by_side(series: Rows, expr: str) -> None:
    assert_alike(expr, stored(series), rule=True, delayed=True)
