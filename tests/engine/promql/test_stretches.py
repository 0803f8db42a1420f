"""An aggregate has the same bits when several processes share out its axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.forks import computed
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.promql.value import Result

AXIS = Axis.span(0, 700_000, 1_000)
ALONE = Options()
TOGETHER = Options(workers=2, fork_cells=0)


@pytest.fixture(scope="module")
def data() -> MemoryDataset:
    """Series that begin, end and pause, so that groups come and go from stretch to stretch."""
    random = np.random.default_rng(5)
    found = []
    for number in range(24):
        times = np.arange(0, 700_001, 10_000, dtype=np.int64) + random.integers(0, 5_000)
        times = times[number % 5 * 10 : 71 - number % 3 * 20]
        values = np.cumsum(random.random(times.size)) * (-1) ** number
        values[random.random(times.size) < 0.05] = np.nan
        labels = Labels.of(__name__="x_total", task_id=f"t{number % 7}", rank=f"{number:02}")
        found.append(Series(labels, times, values))
    times = np.arange(0, 700_001, 10_000, dtype=np.int64)
    # Floats at first, native histograms in the end.
    texts = np.array([None] * 40 + ["{{count:1 sum:1 buckets:[1]}}"] * 31, dtype=np.object_)
    found.append(Series(Labels.of(__name__="latency"), times, np.ones(times.size), texts))
    return MemoryDataset(tuple(sorted(found, key=lambda one: one.labels)))


def bits(result: Result) -> dict[Labels, bytes]:
    assert isinstance(result.value, Vector)
    value = result.value
    held = np.where(value.present, value.values, 0.0)
    held[np.isnan(held)] = np.nan
    rows = zip(value.labels, held, value.present, strict=True)
    return {labels: row.tobytes() + here.tobytes() for labels, row, here in rows}


@pytest.mark.parametrize(
    "expr",
    [
        "sum by (task_id) (rate(x_total[1m]))",
        "avg without (rank) (x_total offset 30s)",
        "max(x_total)",
        "stddev by (task_id) (abs(x_total) > 3)",
        "quantile by (task_id) (0.3, x_total)",
        "topk by (task_id) (2, x_total)",
        "straggler_score by (task_id) (x_total)",
        "straggler_cost by (task_id) (4, rate(x_total[1m]))",
        'count_values by (task_id) ("v", ceil(x_total))',
        "limitk by (task_id) (1, x_total)",
        "sum by (task_id) (x_total @ 300)",
        "sum by (task_id) (x_total @ end())",
        "sum(x_total > scalar(count(x_total)))",
        "sum by (__name__) (x_total)",
        "sum by (task_id) (rate(x_total[1m])) > 1 and on (task_id) max by (task_id) (x_total) > 3",
        "sum by (task_id) (x_total) / on (task_id) count by (task_id) (x_total > 2)",
        "sum by (task_id) (x_total) > bool scalar(sum(x_total)) / 7",
        "avg by (task_id) (x_total) or vector(1)",
        "-(sum(x_total) - max(x_total offset 1m))",
        "count(limit_ratio(1, latency))",
        "max(latency)",
        # In the order of the left side's rows, which have more labels than the result.
        (
            'sum by (of, rank) (label_replace(x_total, "of", "$1", "task_id", "(.*)"))'
            " / on (rank) sum by (rank) (x_total)"
        ),
        'count_values("v", ceil(x_total * 7))',
        'sum by (task_id) (info(label_replace(x_total, "job", "j", "", "")))',
    ],
)
def test_the_axis_may_be_shared_out(expr: str, data: MemoryDataset) -> None:
    one, other = (evaluate(parse(expr), AXIS, data, options) for options in (ALONE, TOGETHER))
    assert list(bits(other).items()) == list(bits(one).items())
    assert other.infos == one.infos
    assert other.warnings == one.warnings


def test_it_is_where_that_pays(data: MemoryDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def counted(one: Callable[[int], object], owners: Sequence[int]) -> Iterator[object]:
        counts.append(len(owners))
        return computed(one, owners)

    monkeypatch.setattr("engine.promql.stretches.computed", counted)
    evaluate(parse("sum(rate(x_total[1m]))"), AXIS, data, TOGETHER)
    assert counts == [2]
    for options in (ALONE, Options(workers=2)):
        evaluate(parse("sum(rate(x_total[1m]))"), AXIS, data, options)
    evaluate(parse("sum(x_total)"), Axis.span(0, 300_000, 1_000), data, TOGETHER)
    assert counts == [2]
    evaluate(parse("sum(x_total) / (count(x_total) + 1)"), AXIS, data, TOGETHER)
    assert counts == [2, 2]


@pytest.mark.parametrize("expr", ["topk(NaN, x_total)", "limitk(1, latency)", "sum(latency)"])
def test_an_error_is_the_same(expr: str, data: MemoryDataset) -> None:
    said = set()
    for options in (ALONE, TOGETHER):
        with pytest.raises(EvaluationError) as caught:
            evaluate(parse(expr), AXIS, data, options)
        said.add((str(caught.value), caught.value.span))
    assert len(said) == 1
