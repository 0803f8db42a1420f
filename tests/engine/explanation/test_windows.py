"""What a score is said to be made of leads to the score that the evaluator gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.folds import Folds
from engine.dataset.dataset import MemoryDataset
from engine.explanation.data import Data
from engine.explanation.memory import of_model
from engine.explanation.peers import of_group
from engine.explanation.windows import of_window
from engine.labels import Labels
from engine.promql.engine import Options
from engine.series import Series
from rules.promql.ast import Aggregate, Call
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

START_MS = 1_700_000_000_000
RANKS = tuple(Labels.of(__name__="x", task="t", rank=str(rank)) for rank in range(9))
numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


def data_of(columns: Sequence[Sequence[float]]) -> tuple[Data, int]:
    """A series for each column, a sample every 10 s, and the time of the last one."""
    times = START_MS + 10_000 * np.arange(len(columns[0]), dtype=np.int64)
    series = [
        Series(labels, times, np.array(column, dtype=np.float64))
        for labels, column in zip(RANKS, columns, strict=False)
    ]
    return Data(MemoryDataset(tuple(series)), Options(), Folds()), int(times[-1])


@pytest.mark.parametrize(
    "expression",
    [
        "zscore_over_time(x[5m])",
        "robust_zscore_over_time(x[5m])",
        "ewma_zscore(x[5m], 60)",
        "seasonal_zscore(x[5m], 60)",
    ],
)
@given(values=st.lists(numbers, min_size=29, max_size=29))
@settings(max_examples=60, deadline=None)
def test_centre_and_spread_give_the_score(expression: str, values: list[float]) -> None:
    data, now_ms = data_of([values])
    call = parse(expression)
    assert isinstance(call, Call)
    ((labels, score),) = data.rows(call, now_ms)
    found = of_window(data, call, now_ms, labels, 2.0)
    centre, spread = found["centre"], found["spread"]
    assert found["window"]["newest"] == values[-1]
    away = values[-1] - centre
    if spread > 1e-6:
        assert score == pytest.approx(away / spread, rel=1e-6, abs=1e-6)
        low, high = found["expected"]
        if not math.isclose(abs(score), 2.0, rel_tol=1e-6):
            assert (low <= values[-1] <= high) == (abs(score) <= 2.0)
    else:
        assert score == 0.0 or not math.isfinite(score) or abs(away) < 1.0


def test_a_season_that_is_not_all_in_the_window_is_none() -> None:
    # Of four seasons of 200 s the window holds three; a sample is close to where the fourth is.
    values = np.random.default_rng(7).normal(size=100)
    data, now_ms = data_of([values.tolist()])
    call = parse("seasonal_zscore(x[795s], 200)")
    assert isinstance(call, Call)
    ((labels, score),) = data.rows(call, now_ms)
    found = of_window(data, call, now_ms, labels, None)
    assert found["centre"] == pytest.approx(values[[79, 59, 39]].mean())
    assert (values[-1] - found["centre"]) / found["spread"] == pytest.approx(score)


def test_where_no_number_is_compared_three_spreads_are_expected() -> None:
    data, now_ms = data_of([[1.0, 3.0] * 10])
    call = parse("zscore_over_time(x[10m])")
    assert isinstance(call, Call)
    ((labels, _),) = data.rows(call, now_ms)
    found = of_window(data, call, now_ms, labels, None)
    assert (found["centre"], found["spread"]) == (2.0, 1.0)
    assert (found["expected"], found["spreads"]) == ([-1.0, 5.0], 3.0)


def test_a_change_point_has_size_time_and_p_value_beside_it() -> None:
    data, now_ms = data_of([[1.0] * 10 + [4.0] * 10])
    call = parse("changepoint_size_over_time(x[10m])")
    assert isinstance(call, Call)
    ((labels, _),) = data.rows(call, now_ms)
    found = of_window(data, call, now_ms, labels, None)
    assert found["changepoint_size_over_time"] == 3.0
    assert found["changepoint_time_over_time"] == START_MS / 1000 + 100
    assert found["changepoint_pvalue_over_time"] < 0.01


def test_a_forecast_has_three_bands_around_it() -> None:
    data, now_ms = data_of([[1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 5.0, 1.0]])
    call = parse("holt_band_over_time(x[10m], 0.3, 0.1)")
    assert isinstance(call, Call)
    ((labels, band),) = data.rows(call, now_ms)
    found = of_window(data, call, now_ms, labels, None)
    forecast = found["holt_forecast_over_time"]
    assert found["expected"] == [forecast - 3 * band, forecast + 3 * band]


def test_a_shift_expects_the_quartiles_of_the_window_before() -> None:
    data, now_ms = data_of([[1.0, 2.0, 3.0, 4.0, 5.0] + [9.0] * 5])
    call = parse("distribution_shift(x[50s], x[50s] offset 50s)")
    assert isinstance(call, Call)
    ((labels, _),) = data.rows(call, now_ms)
    found = of_window(data, call, now_ms, labels, None)
    assert (found["window"]["samples"], found["window"]["median"]) == (5, 9.0)
    assert (found["reference"]["samples"], found["reference"]["newest"]) == (5, 5.0)
    assert found["expected"] == [2.0, 4.0]


@given(values=st.lists(st.floats(0.1, 10.0), min_size=3, max_size=9))
@settings(max_examples=60, deadline=None)
def test_peers_give_the_score_and_what_was_expected(values: list[float]) -> None:
    data, now_ms = data_of([[value] for value in values])
    node = parse("straggler_score by (task) (x)")
    assert isinstance(node, Aggregate)
    for labels, score in data.rows(node, now_ms):
        own = values[int(labels.get("rank"))]
        found = of_group(data, node, now_ms, labels, 3.0)
        assert (found["value_of"], found["size"]) == (own, len(values))
        assert found["place"] == 1 + sum(value > own for value in values)
        assert len(found["peers"]) == len(values) - 1
        low, high = found["expected"]
        if not math.isclose(abs(score), 3.0, rel_tol=1e-9):
            assert (low <= own <= high) == (abs(score) <= 3.0)


def test_a_model_is_said_to_have_expected_what_it_had_seen() -> None:
    random = np.random.default_rng(3)
    usual = 5.0 + random.uniform(-1.0, 1.0, 400)
    data, now_ms = data_of([[*usual, 12.0]])
    call = parse("anomaly_score(x)")
    assert isinstance(call, Call)
    ((labels, score),) = data.rows(call, now_ms)
    found = of_model(data, call, now_ms, labels, score)
    low, high = found["expected"]
    assert low == pytest.approx(4.0, abs=0.3)
    assert high == pytest.approx(6.0, abs=0.3)
    strongest = found["strengths"][found["strongest"]]
    assert score == pytest.approx(strongest / (1 + strongest))
    assert found["point"] == now_ms / 1000


def test_a_model_that_gives_another_score_is_not_spoken_of() -> None:
    data, now_ms = data_of([[float(place % 7) for place in range(300)]])
    call = parse("anomaly_score(x)")
    assert isinstance(call, Call)
    ((labels, score),) = data.rows(call, now_ms)
    assert of_model(data, call, now_ms, labels, score)
    assert of_model(data, call, now_ms, labels, score + 0.25) == {}
