"""Native histograms: kept, ignored where Prometheus ignores them, needed where one decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.errors import NeedsNativeHistograms
from engine.promql.value import Axis, Scalar, Vector
from rules.promql.parser import parse
from rules.source import Source
from tests.reference.grammar import MIXED, Rows, expressions, extended, filled, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.value import Result
    from rules.promql.ast import Expr
    from tests.engine.promql.conftest import Data
    from tests.promqltest.storage import MemoryStorage

Column = dict[str, str]
H = "{{schema:0 sum:1 count:2 buckets:[2]}}"
OTHER = "{{schema:0 sum:1 count:3 buckets:[3]}}"
# Floats, then histograms: at 40 s a window of 1 m has both.
SERIES = f"""10s
 lat{{of="mixed"}} 1 2 {H} {H} {H}
 lat{{of="native"}} {H} {H} {H} {H} {OTHER}
 lat{{of="float"}} 1 2 3 4 5
 only{{of="native"}} {H} {H} {H} {H} {H}
 both{{le="1"}} 1 1 1 1 1
 both{{le="+Inf"}} 2 2 2 2 2
 both {H} {H} {H} {H} {H}
"""

# What has a result although histograms are about: at 40 s.
IGNORED = [
    ("count(lat)", {"{}": 3}),
    ("count by (of) (lat)", {'{of="mixed"}': 1, '{of="native"}': 1, '{of="float"}': 1}),
    ("group(only)", {"{}": 1}),
    ("min(lat)", {"{}": 5}),
    ("stddev(only)", {}),
    ("quantile(0.5, lat)", {"{}": 5}),
    ("topk(3, lat)", {'lat{of="float"}': 5}),
    ("count(limitk(2, lat))", {"{}": 2}),
    ("abs(lat)", {'{of="float"}': 5}),
    ("clamp(only, 0, 1)", {}),
    ("day_of_week(lat)", {'{of="float"}': 4}),
    ("sort(lat)", {'lat{of="float"}': 5}),
    ("vector(scalar(lat))", {"{}": 5}),
    ("absent(only)", {}),
    ("absent_over_time(only[1m])", {}),
    ("timestamp(only)", {'{of="native"}': 40}),
    ("lat and on (of) (lat == 5)", {'lat{of="float"}': 5}),
    ("count(lat * 2)", {"{}": 3}),
    ("count(-only)", {"{}": 1}),
    ("lat > 1", {'lat{of="float"}': 5}),
    ("lat + 1", {'{of="float"}': 6}),
    ("2 / lat", {'{of="float"}': 0.4}),
    ("lat * on (of) lat", {'{of="float"}': 25}),
    ("lat - on () group_left () vector(1)", {'{of="float"}': 4}),
    ("count_over_time(lat[1m])", dict.fromkeys(
        ['{of="mixed"}', '{of="native"}', '{of="float"}'], 5)),
    ("present_over_time(only[1m])", {'{of="native"}': 1}),
    ("max_over_time(lat[1m])", {'{of="mixed"}': 2, '{of="float"}': 5}),
    ("deriv(only[1m])", {}),
    ("first_over_time(lat{of='mixed'}[1m])", {'lat{of="mixed"}': 1}),
    ("ts_of_last_over_time(lat{of='mixed'}[1m])", {'{of="mixed"}': 40}),
    ("ts_of_max_over_time(lat{of='mixed'}[1m])", {'{of="mixed"}': 10}),
    ("rate(lat{of!='native'}[1m])", {'{of="float"}': 0.075}),
    ("sum_over_time(lat{of='mixed'}[1m])", {}),
    ("rate(only[15s])", None),
    ("rate(only[5s])", {}),
    ("irate(lat{of='mixed'}[30s])", None),
    ("irate(lat{of='mixed'}[1m] offset 20s)", {}),
    ("idelta(lat{of='mixed'}[1m] offset 30s)", {'{of="mixed"}': 1}),
    ("changes(lat{of='mixed'}[1m])", {'{of="mixed"}': 2}),
    ("resets(lat{of='mixed'}[1m])", {'{of="mixed"}': 1}),
    ("changes(only[1m])", {'{of="native"}': 0}),
    ("changes(lat{of='native'}[1m])", None),
    ("sum(lat)", {}),
    ("sum by (of) (lat{of='native'})", None),
    ("count_values('v', only)", None),
    ("histogram_count(only)", None),
    ("histogram_count(lat{of='float'})", {}),
    ("histogram_quantile(0.5, both)", {}),
    ("histogram_quantile(0.5, only)", None),
    ("only == only", None),
    ("only </ 1", None),
    ("lat{of='float'} </ 1", {}),
    ("only", None),
    ("last_over_time(only[1m])", None),
    ("only[1m]", None),
    ("count_over_time(only[40s:10s])", {'{of="native"}': 4}),
    ("max_over_time((lat{of='mixed'} or vector(7))[20s:10s])", {"{}": 7}),
    ("changes(anchoring[1m])", {}),
    ("changes(lat{of='mixed'}[30s] anchored)", {'{of="mixed"}': 1}),
    ("increase(lat{of='mixed'}[30s] anchored)", {}),
    ("increase(only[30s] smoothed)", None),
    ("lat{of='mixed'} smoothed", {}),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "expected"), IGNORED, ids=[row[0] for row in IGNORED])
def test_a_histogram_is_ignored_counted_or_needed(
    expr: str, expected: dict[str, float] | None, load: Callable[[str], Data]
) -> None:
    data = load(SERIES)
    if expected is not None:
        assert data.at(40, expr) == pytest.approx(expected)
        return
    with pytest.raises(NeedsNativeHistograms, match="needs native histograms") as caught:
        data.at(40, expr)
    assert caught.value.span is not None


NOTES = [
    ("min(lat)", "PromQL info: ignored histogram in min aggregation (1:5)"),
    (
        "sum(lat)",
        "PromQL warning: encountered a mix of histograms and floats for aggregation (1:5)",
    ),
    (
        "max_over_time(lat[1m])",
        (
            "PromQL info: ignored histograms in a range containing both floats and histograms "
            'for metric name "lat" (1:15)'
        ),
    ),
    (
        "rate(lat{of='mixed'}[1m])",
        'PromQL warning: encountered a mix of histograms and floats for metric name "lat" (1:6)',
    ),
    (
        "lat{of='mixed'} + 1",
        (
            "PromQL info: incompatible sample types encountered for binary operator "
            '"+": histogram + float (1:1)'
        ),
    ),
    (
        "2 > lat{of='mixed'}",
        (
            "PromQL info: incompatible sample types encountered for binary operator "
            '">": float > histogram (1:1)'
        ),
    ),
    (
        "histogram_quantile(0.5, both)",
        (
            "PromQL warning: vector contains a mix of classic and native histograms "
            'for metric name "both" (1:25)'
        ),
    ),
]


@pytest.mark.parametrize(("expr", "note"), NOTES, ids=[row[0] for row in NOTES])
def test_what_is_ignored_is_told(expr: str, note: str, load: Callable[[str], Data]) -> None:
    options = Options(source=Source("query", expr))
    result = load(SERIES).on(expr, Axis.instant(40_000), options)
    assert note in (*result.warnings, *result.infos)


def test_where_there_are_only_histograms_nothing_is_told(load: Callable[[str], Data]) -> None:
    for expr in ("max_over_time(only[1m])", "count(only)", "abs(only)", "rate(only[5s])"):
        result = load(SERIES).on(expr, Axis.instant(40_000))
        assert (*result.warnings, *result.infos) == ()


def test_histograms_over_an_axis_are_those_of_its_instants(load: Callable[[str], Data]) -> None:
    data = load(SERIES)
    for expr in ("count(lat)", "max_over_time(lat[25s])", "changes(lat{of='mixed'}[25s])",
                 "lat + 0", "count_over_time(only[25s:5s])"):  # fmt: skip
        points = data.points(expr, Axis.span(0, 60_000, 5_000))
        for time in range(0, 61, 5):
            alone = data.at(time, expr)
            assert alone == {name: row[time] for name, row in points.items() if time in row}


@settings(max_examples=150, deadline=None)
@given(series=MIXED, expr=st.one_of(expressions(), extended(), filled()))
def test_whatever_meets_histograms_over_an_axis_does_so_at_each_instant(
    series: Rows, expr: str
) -> None:
    storage, tree = stored(series), parse(expr)
    times = range(0, 130_001, 10_000)
    alone = [result_at(tree, time, storage) for time in times]
    try:
        together = evaluate(tree, Axis.span(0, times[-1], 10_000), storage)
    except EvaluationError:
        assert None in alone or "@" in expr
        return
    if "@" in expr:
        return
    assert [column(together, step) for step in range(len(times))] == alone


def result_at(tree: Expr, time_ms: int, storage: MemoryStorage) -> Column | None:
    try:
        axis = Axis(np.array([time_ms], dtype=np.int64), 0)
        return column(evaluate(tree, axis, storage), 0)
    except EvaluationError:
        return None


def column(result: Result, step: int) -> Column:
    value = result.value
    if isinstance(value, Scalar):
        return {"scalar": repr(value.values.tolist()[step])}
    assert isinstance(value, Vector)
    rows = zip(value.labels, value.values[:, step].tolist(), value.present[:, step], strict=True)
    return {str(labels): repr(number) for labels, number, here in rows if here}
