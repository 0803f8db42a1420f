"""Many elements at once have the bits that each has alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.anomaly.many import fold_many
from engine.baselines.anomaly.model import ANOMALY_THRESHOLD, AnomalyModel, fold
from engine.baselines.anomaly.settings import Learning

STEP_MS = 300_000


def elements(count: int, points: int, seed: int) -> np.ndarray:
    """Noise, rhythms, steps, spikes, constants and gaps, a row each."""
    random = np.random.default_rng(seed)
    values = random.normal(100.0, 5.0, (count, points))
    values[0::6] += 40.0 * np.sin(np.arange(points) / 288.0 * 2.0 * np.pi)
    values[1::6, points // 2 :] += 100.0
    values[2::6, :: points // 7] += 300.0
    values[3::6] = np.round(values[3::6] / 50.0)
    values[4::6][random.random(values[4::6].shape) < 0.2] = np.nan
    values[5::6] **= 50.0
    return values


def learning(row: int) -> Learning:
    return Learning(pause=row % 4 != 3, accept_points=(30, 120, 600)[row % 3])


def assert_alike(times: np.ndarray, values: np.ndarray, cuts: list[int]) -> np.ndarray:
    alone = [AnomalyModel(learning(row)) for row in range(len(values))]
    together = [AnomalyModel(learning(row)) for row in range(len(values))]
    expected = np.array([fold(*one) for one in zip(alone, [times] * len(values), values)])  # noqa: B905 - rows of one array
    parts = np.split(np.arange(len(times)), cuts)
    told = np.hstack([fold_many(together, times[cut], values[:, cut]) for cut in parts])
    assert told.tobytes() == expected.tobytes()
    assert [one.state() for one in together] == [one.state() for one in alone]
    return told


def test_the_bits_are_those_of_one_after_another() -> None:
    values = elements(90, 2000, 1)
    told = assert_alike(np.arange(2000, dtype=np.int64) * STEP_MS, values, [700, 701, 1400])
    assert np.count_nonzero(told >= ANOMALY_THRESHOLD) > 50


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_whatever_the_values_and_times(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    length = data.draw(st.integers(0, 250))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    odd = [0.0, 1.0, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf]
    values = np.where(
        random.random((count, length)) < data.draw(st.sampled_from([0.0, 0.1, 0.9])),
        random.choice(odd, (count, length)),
        random.normal(size=(count, length)),
    )
    times = np.cumsum(random.integers(-1, 5, length)) * 3_600_000
    assert_alike(times, values, [length // 3])


@pytest.mark.parametrize("count", [0, 1])
def test_no_element_or_one(count: int) -> None:
    values = elements(1, 200, 2)[:count]
    assert_alike(np.arange(200, dtype=np.int64) * STEP_MS, values, [50]) if count else None
    assert fold_many([], np.arange(3, dtype=np.int64), np.empty((0, 3))).shape == (0, 3)
