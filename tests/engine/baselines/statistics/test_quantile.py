"""The streaming quantile beside the sorted values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.baselines.statistics.quantile import StreamingQuantile


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(0.0, 1.0))
def test_it_is_exact_up_to_five_values(values: list[float], probability: float) -> None:
    quantile = StreamingQuantile(probability)
    for value in values:
        quantile.update(value)
    assert quantile.get() == pytest.approx(np.quantile(values, probability), rel=1e-9, abs=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=200), st.floats(0.01, 0.99))
def test_it_stays_within_the_values(values: list[float], probability: float) -> None:
    quantile = StreamingQuantile(probability)
    for value in values:
        quantile.update(value)
    assert min(values) <= quantile.get() <= max(values)


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
def test_it_comes_near_the_quantile_of_many_values(probability: float) -> None:
    values = np.random.default_rng(2).normal(size=20_000)
    quantile = StreamingQuantile(probability)
    for value in values:
        quantile.update(float(value))
    below = np.mean(values < quantile.get())
    assert below == pytest.approx(probability, abs=0.005)


def test_no_value_has_no_quantile() -> None:
    assert math.isnan(StreamingQuantile(0.5).get())
