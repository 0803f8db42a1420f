"""A row-wise expression has the same bits however its rows are cut and whoever computes them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.labels import Labels
from engine.promql.blocks import plan
from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.functions.table import ROW_WISE
from engine.promql.value import Axis, Vector
from engine.series import Series, stale_mask
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.promql.value import Result
    from rules.promql.ast import Matcher

TIMES = np.arange(0, 600_001, 10_000, dtype=np.int64)
AXIS = Axis.span(5_000, 600_000, 15_000)


@dataclass
class Data:
    """Thirty counters with gaps, resets, markers and clocks of their own."""

    series: list[Series] = field(default_factory=list)
    readers: set[str] = field(default_factory=set)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        self.readers.add(threading.current_thread().name)
        name = next(one.value for one in matchers if one.label == "__name__")
        found = []
        for one in self.series:
            mask = (one.timestamps_ms >= start_ms) & (one.timestamps_ms <= end_ms)
            if name in {one.labels.name, ".+"} and mask.any():
                found.append(Series(one.labels, one.timestamps_ms[mask], one.values[mask]))
        return found


@pytest.fixture(scope="module")
def data() -> Data:
    random = np.random.default_rng(7)
    found = []
    for number in range(30):
        times = TIMES if number % 3 else TIMES + random.integers(0, 4_000, TIMES.size)
        values = np.cumsum(random.integers(0, 9, TIMES.size)).astype(np.float64)
        if number % 4 == 0:
            values[30:] -= values[30]
        if number % 5 == 0:
            values[20:25] = np.uint64(0x7FF0000000000002).view(np.float64)
        if number % 7 == 0:
            values[40] = np.inf if number % 2 else np.nan
        kept = random.random(TIMES.size) > (0.4 if number % 6 == 5 else 0.0)
        name = "x_total" if number % 2 else "y"
        labels = Labels.of(__name__=name, task_id=f"t{number % 4}", rank=f"{number:02}")
        found.append(Series(labels, times[kept], values[kept]))
    return Data(sorted(found, key=lambda one: one.labels))


ROWS = [
    "x_total",
    "-x_total offset 20s",
    "rate(x_total[1m]) > 0.4",
    "0.4 < bool rate(x_total[1m])",
    "clamp_max(abs(x_total - 50), scalar(count(y)) * 3) ^ 2",
    "max_over_time(rate(x_total[1m])[2m:15s])",
    "quantile_over_time(1.5, y[1m]) + time()",
    "avg_over_time(y[90s]) / 3",
    "timestamp(x_total)",
    "hour(x_total) == 0",
    "zscore_over_time(x_total[2m])",
    "robust_zscore_over_time(y[95s]) > 1",
    "ewma_over_time(x_total[2m], 30)",
    "ewma_zscore(x_total[2m], 30)",
    "seasonal_zscore(y[3m], 40)",
    "holt_forecast_over_time(x_total[2m], 0.3, 0.1)",
    "holt_band_over_time(x_total[2m], 0.3, 0.1)",
    "holt_trend_over_time(x_total[2m], 0.3, 0.1)",
    "changepoint_size_over_time(x_total[2m])",
    "changepoint_time_over_time(y[2m])",
    "changepoint_pvalue_over_time(y[2m:15s])",
    "trend_over_time(x_total[2m]) * 3",
    "trend_pvalue_over_time(y[2m])",
    "entropy_over_time(y[2m])",
    "y > 1e9",
]
BEYOND = [
    "sum by (task_id) (rate(x_total[1m]))",
    "rate(x_total[1m]) > 0.3 and on (task_id) (avg by (task_id) (y) > 1)",
    "topk by (task_id) (1, increase(x_total[1m]))",
    "straggler_score by (task_id) (increase(x_total[1m])) > 0.1",
    "straggler_slowdown(y)",
    "rate(x_total[1m]) / on (rank) rate(x_total[2m])",
    "absent(y > 1e9)",
    "stddev(y) or count(x_total > 3)",
    "distribution_shift(x_total[1m], x_total[3m] offset 1m)",
    "distribution_shift_pvalue(x_total[1m], (y + 1)[3m:20s]) < 0.5",
]
CUTS = [
    Options(block_cells=1),
    Options(block_cells=100),
    Options(block_cells=1, workers=2, fork_cells=0),
    Options(block_cells=150, workers=3, fork_cells=0),
    Options(block_cells=1, delayed_name_removal=False),
]


def rows(result: Result) -> list[tuple[str, bytes]]:
    """Each row with all its bits, whatever the order."""
    assert isinstance(result.value, Vector)
    value = result.value
    held = np.where(value.present, value.values, 0.0)
    held[np.isnan(held) & ~stale_mask(held)] = np.nan
    parts = zip(value.labels, held, value.present, strict=True)
    return [(str(labels), row.tobytes() + here.tobytes()) for labels, row, here in parts]


@pytest.mark.parametrize("expr", [*ROWS, *BEYOND])
@pytest.mark.parametrize("cut", CUTS, ids=range(len(CUTS)))
def test_blocks_and_forks_change_nothing(expr: str, cut: Options, data: Data) -> None:
    whole = replace(cut, block_cells=10**9, workers=1)
    tree = parse(expr)
    one, other = (evaluate(tree, AXIS, data, options) for options in (whole, cut))
    assert rows(other) == rows(one)
    assert set(other.infos) == set(one.infos)
    assert set(other.warnings) == set(one.warnings)
    assert len(rows(one)) == len(set(rows(one)))


@pytest.mark.parametrize("expr", ROWS)
def test_what_keeps_to_its_row_is_planned_as_one(expr: str) -> None:
    assert plan(parse(expr)) is not None


@pytest.mark.parametrize(
    "expr",
    [
        "1 + 2",
        "sum(x)",
        "x + x",
        "x and y",
        "sort(x)",
        "vector(1)",
        'label_replace(x, "a", "b", "c", "d")',
        "max_over_time((x > scalar(y))[5m:])",
        "hour()",
    ],
)
def test_what_looks_at_other_rows_is_not(expr: str) -> None:
    assert plan(parse(expr)) is None


def test_no_function_of_many_rows_is_taken_for_row_wise() -> None:
    names = {"absent", "absent_over_time", "sort", "histogram_quantile", "label_join", "scalar"}
    assert not names & ROW_WISE


def test_annotations_come_once_in_the_order_of_rows(data: Data) -> None:
    result = evaluate(
        parse("rate(y[1m])"), AXIS, data, Options(block_cells=1, workers=2, fork_cells=0)
    )
    assert len(result.infos) == 1
    assert "might not be a counter" in result.infos[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_series_that_only_their_names_tell_apart_clash_across_blocks(
    data: Data, workers: int
) -> None:
    twins = [
        Series(Labels.of(__name__=name, rank="0"), TIMES, np.arange(61.0))
        for name in ("x_total", "y")
    ]
    options = Options(block_cells=1, workers=workers, fork_cells=0, delayed_name_removal=False)
    expr = 'rate({__name__=~".+"}[1m]) > 1e9'
    with pytest.raises(EvaluationError, match="same labelset") as caught:
        evaluate(parse(expr), AXIS, Data(twins), options)
    assert caught.value.span is not None
    delayed = replace(options, delayed_name_removal=True)
    assert rows(evaluate(parse(expr), AXIS, Data(twins), delayed)) == []


def test_a_filter_over_more_than_fits_needs_only_what_it_keeps(data: Data) -> None:
    few = Options(block_cells=100, max_samples=300)
    assert rows(evaluate(parse("x_total == -1"), AXIS, data, few)) == []
    with pytest.raises(EvaluationError, match="too many samples") as caught:
        evaluate(parse("1 + x_total"), AXIS, data, few)
    assert caught.value.span is not None
    assert caught.value.span.start == 4
