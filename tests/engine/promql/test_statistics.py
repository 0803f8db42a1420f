"""Statistics of windows beside scipy, pandas and statsmodels, and at their edges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import EvaluationError, evaluate
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.functions import FUNCTIONS
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.series import Float64Array
    from tests.engine.promql.conftest import Data

START_MS, SPACING_MS = 1_700_000_000_000, 10_000
# Hundredths: where they differ by their last bits only, peers say NaN, or nothing that holds.
VALUES = st.one_of(
    st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 2)), min_size=10, max_size=40),
    st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0]), min_size=10, max_size=40),
)
CALLS = {
    "changepoint_pvalue_over_time": "{}(x[{}])",
    "changepoint_size_over_time": "{}(x[{}])",
    "changepoint_time_over_time": "{}(x[{}])",
    "distribution_shift": "{}(x[{}], x[{}])",
    "distribution_shift_pvalue": "{}(x[{}], x[{}])",
    "entropy_over_time": "{}(x[{}])",
    "ewma_over_time": "{}(x[{}], 60)",
    "ewma_zscore": "{}(x[{}], 60)",
    "holt_band_over_time": "{}(x[{}], 0.3, 0.1)",
    "holt_forecast_over_time": "{}(x[{}], 0.3, 0.1)",
    "holt_trend_over_time": "{}(x[{}], 0.3, 0.1)",
    "robust_zscore_over_time": "{}(x[{}])",
    "seasonal_zscore": "{}(x[{}], 60)",
    "trend_over_time": "{}(x[{}])",
    "trend_pvalue_over_time": "{}(x[{}])",
    "zscore_over_time": "{}(x[{}])",
}
# How many samples, 10 s apart, each of them needs.
WARM_UP = {
    "changepoint_pvalue_over_time": 8,
    "changepoint_size_over_time": 8,
    "changepoint_time_over_time": 8,
    "distribution_shift": 5,
    "distribution_shift_pvalue": 5,
    "entropy_over_time": 2,
    "ewma_over_time": 1,
    "ewma_zscore": 5,
    "holt_band_over_time": 6,
    "holt_forecast_over_time": 3,
    "holt_trend_over_time": 3,
    "robust_zscore_over_time": 5,
    "seasonal_zscore": 19,
    "trend_over_time": 3,
    "trend_pvalue_over_time": 8,
    "zscore_over_time": 3,
}


def called(name: str, window: str = "10m") -> str:
    return CALLS[name].format(name, window, window)


def of(expr: str, values: list[float] | Float64Array, *others: list[float]) -> float | None:
    """A function of x, and of y and so on, at the time of x's last sample; None: no result."""
    series = []
    for name, each in zip("xyz", (values, *others), strict=False):
        times = START_MS + (np.arange(len(each)) + len(values) - len(each)) * SPACING_MS
        series.append(Series(Labels.of(__name__=name), times, np.array(each, dtype=np.float64)))
    last = Axis.instant(START_MS + (len(values) - 1) * SPACING_MS)
    found = evaluate(parse(expr), last, MemoryDataset(tuple(series))).value
    assert isinstance(found, Vector)
    shown = found.values  # noqa: PD011 - no frame of pandas
    return float(shown[0, 0]) if found.present.any() else None


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)


def test_every_function_of_ours_is_tried_here() -> None:
    assert {name for name, row in FUNCTIONS.items() if row.ours} >= set(CALLS)
    assert set(CALLS) == set(WARM_UP)


@settings(max_examples=60, deadline=None)
@given(values=VALUES)
def test_z_scores_and_entropy_are_those_of_scipy(values: list[float]) -> None:
    if len(set(values)) > 1:
        assert of(called("zscore_over_time"), values) == pytest.approx(
            scipy.stats.zscore(values)[-1], rel=1e-6, abs=1e-6
        )
    deviation = scipy.stats.median_abs_deviation(values, scale="normal")
    if deviation > 0:
        expected = (values[-1] - np.median(values)) / deviation
        assert of(called("robust_zscore_over_time"), values) == near(float(expected))
    _, counts = np.unique(values, return_counts=True)
    assert of(called("entropy_over_time"), values) == near(scipy.stats.entropy(counts, base=2))


@settings(max_examples=60, deadline=None)
@given(values=VALUES, halflife=st.sampled_from([10.0, 25.0, 300.0]))
def test_weighted_means_and_deviations_are_those_of_pandas(
    values: list[float], halflife: float
) -> None:
    times = pd.Series(pd.to_datetime(START_MS + np.arange(len(values)) * SPACING_MS, unit="ms"))
    wide = pd.Timedelta(seconds=halflife)
    by_time = pd.Series(values).ewm(halflife=wide, times=times)  # type: ignore[arg-type]  # so documented
    expected = by_time.mean().iloc[-1]
    assert of(f"ewma_over_time(x[10m], {halflife})", values) == near(expected)
    before = pd.Series(values[:-1]).ewm(halflife=halflife * 1000 / SPACING_MS)
    mean, deviation = before.mean().iloc[-1], math.sqrt(before.var(bias=True).iloc[-1])
    if deviation > 1e-3:
        found = of(f"ewma_zscore(x[10m], {halflife})", values)
        assert found == pytest.approx((values[-1] - mean) / deviation, rel=1e-6, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(values=VALUES)
def test_slopes_and_their_significance_are_those_of_scipy(values: list[float]) -> None:
    seconds = np.arange(len(values)) * SPACING_MS / 1000
    slope = scipy.stats.theilslopes(values, seconds).slope
    assert of(called("trend_over_time"), values) == near(float(slope))
    found = of(called("trend_pvalue_over_time"), values)
    assert found is not None
    if len(set(values)) == 1:
        assert found == 1.0
        return
    # scipy leaves the correction for continuity out: S is one nearer to 0.
    plain = scipy.stats.kendalltau(seconds, values, method="asymptotic").pvalue
    balance = abs(np.sign(np.subtract.outer(values, values))[np.tril_indices(len(values))].sum())
    score = scipy.stats.norm.isf(plain / 2)
    expected = 2 * scipy.stats.norm.sf(score * (balance - 1) / balance) if balance else 1.0
    assert found == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(values=VALUES, other=VALUES)
def test_a_shift_is_that_of_scipy(values: list[float], other: list[float]) -> None:
    expected = scipy.stats.ks_2samp(values, other, method="asymp")
    expr = f"(x[{len(values) * 10}s], y[{len(other) * 10}s])"
    assert of(f"distribution_shift{expr}", values, other) == near(expected.statistic)
    assert of(f"distribution_shift_pvalue{expr}", values, other) == near(expected.pvalue)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:statsmodels")
@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=40))
def test_forecasts_are_those_of_statsmodels(values: list[float]) -> None:
    from statsmodels.tsa.holtwinters import Holt

    model = Holt(
        np.array(values[1:]),
        initialization_method="known",
        initial_level=values[0],
        initial_trend=values[1] - values[0],
    )
    fit = model.fit(smoothing_level=0.3, smoothing_trend=0.1, optimized=False)
    found = of("holt_forecast_over_time(x[10m], 0.3, 0.1)", values)
    assert found == pytest.approx(fit.fittedvalues[-1], rel=1e-9, abs=1e-6)
    errors = np.array(values[1:]) - fit.fittedvalues
    band = math.sqrt(float(np.mean(errors[1:-1] ** 2)))
    assert of(called("holt_band_over_time"), values) == pytest.approx(band, rel=1e-6, abs=1e-6)
    assert of("double_exponential_smoothing(x[10m], 0.3, 0.1)", values) == pytest.approx(
        fit.level[-1], rel=1e-9, abs=1e-6
    )


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_constant_is_no_anomaly(name: str) -> None:
    found = of(called(name), [0.1] * 40)
    expected = {
        "changepoint_pvalue_over_time": 1.0,
        "changepoint_time_over_time": None,
        "distribution_shift_pvalue": 1.0,
        "ewma_over_time": 0.1,
        "holt_forecast_over_time": 0.1,
        "trend_pvalue_over_time": 1.0,
    }
    assert found == expected.get(name, 0.0)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_warm_up_is_as_many_samples_as_it_says(name: str) -> None:
    values = np.arange(40.0) ** 2 % 7
    needed = WARM_UP[name]
    assert of(called(name), values[: needed - 1]) is None
    assert of(called(name), values[:needed]) is not None


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_what_is_not_finite_spoils_only_windows_that_contain_it(name: str, wild: float) -> None:
    values = np.arange(60.0) ** 2 % 11
    clean = of(called(name, "5m"), values)
    assert clean is not None
    values[25] = wild
    assert of(called(name, "5m"), values) == clean
    values[35] = wild
    assert of(called(name, "5m"), values) is None


@pytest.mark.parametrize("scale", [2.0**-700, 2.0**800])
@pytest.mark.parametrize(
    ("name", "power"),
    [
        ("changepoint_pvalue_over_time", 0),
        ("changepoint_size_over_time", 1),
        ("ewma_over_time", 1),
        ("ewma_zscore", 0),
        ("holt_band_over_time", 1),
        ("holt_forecast_over_time", 1),
        ("robust_zscore_over_time", 0),
        ("seasonal_zscore", 0),
        ("trend_over_time", 1),
        ("trend_pvalue_over_time", 0),
    ],
)
def test_huge_and_tiny_samples_are_ordinary(name: str, power: int, scale: float) -> None:
    values = np.arange(60.0) ** 2 % 11 + 1
    expected = of(called(name), values)
    assert expected is not None
    assert of(called(name), values * scale) == expected * scale**power


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("ewma_over_time(x[5m], 0)", "invalid half-life"),
        ("ewma_zscore(x[5m], -1)", "invalid half-life"),
        ("seasonal_zscore(x[5m], 0)", "invalid period"),
        ("seasonal_zscore(x[5m], 0.2)", "at least a thousandth"),
        ("seasonal_zscore(x[5m], 101)", "at most a third of the window, 0.3 to 100 seconds"),
        ("holt_band_over_time(x[5m], 1, 0.1)", "invalid smoothing factor"),
        ("holt_trend_over_time(x[5m], 0.5, 0)", "invalid trend factor"),
    ],
)
def test_a_parameter_that_means_nothing_is_refused(expr: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        of(expr, np.arange(40.0))


@pytest.mark.parametrize("name", ["trend_over_time", "trend_pvalue_over_time"])
def test_pairs_of_too_many_samples_are_refused_with_a_way_out(name: str) -> None:
    values = np.arange(1001.0)
    with pytest.raises(EvaluationError, match=r"has 1,001 of them: at most 1,000\. Thin it by"):
        of(called(name, "3h"), values)
    assert of(called(name, "3h"), values[1:]) is not None
    assert of(f"{name}(x[3h:1m])", values) is not None


def test_two_series_that_only_their_names_tell_apart_have_no_shift() -> None:
    expr = 'distribution_shift({__name__=~"[xy]"}[5m], x[5m])'
    with pytest.raises(EvaluationError, match=r"found two series \{\} on one side"):
        of(expr, list(range(40)), list(range(40)))


def test_a_shift_is_of_series_that_both_sides_have(load: Callable[[str], Data]) -> None:
    data = load('10s\n x{rank="0"} 1x30\n x{rank="1"} 1x30\n y{rank="1"} 2x30\n y{rank="2"} 2x30')
    assert data.at(300, "distribution_shift(x[2m], y[2m])") == {'{rank="1"}': 1.0}


def test_what_comes_every_day_is_usual_and_what_does_not_is_not() -> None:
    day = [0.0] * 5 + [100.0, 103.0] + [0.0] * 3
    noise = np.random.default_rng(3).normal(size=80)
    usual = np.array(day * 8) + noise
    at_peak = usual[:76]
    found = of("seasonal_zscore(x[8m], 100)", at_peak)
    assert found is not None
    assert abs(found) < 3
    flat = at_peak.copy()
    flat[-1] = 0.0
    found = of("seasonal_zscore(x[8m], 100)", flat)
    assert found is not None
    assert found < -10
