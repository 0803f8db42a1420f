"""The model is a pure fold, whatever the data and however they are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.baselines.anomaly.model import (
    ANOMALY_THRESHOLD,
    MODEL_VERSION,
    AnomalyModel,
    fold,
)
from rules.errors import StallwatchError

POINTS = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.one_of(
            st.floats(),
            st.sampled_from([0.0, 1.0, 1e308, -1e308, 5e-324]),
        ),
    ),
    max_size=300,
)


def arrays(points: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    times = np.array([time for time, _ in points], dtype=np.int64)
    return times, np.array([value for _, value in points], dtype=np.float64)


def noise(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    values = np.random.default_rng(seed).normal(100.0, 5.0, count)
    return np.arange(count, dtype=np.int64) * 10_000, values


@given(POINTS)
def test_a_score_is_within_0_and_1_or_nan_whatever_the_values(
    points: list[tuple[int, float]],
) -> None:
    scores = fold(AnomalyModel(), *arrays(points))
    assert np.all(np.isnan(scores) | ((scores >= 0.0) & (scores <= 1.0)))


@given(st.integers(0, 400), st.integers(0, 400))
def test_any_cut_and_any_restart_give_the_same_bits(first: int, second: int) -> None:
    times, values = noise(400)
    whole = fold(AnomalyModel(), times, values)
    model = AnomalyModel()
    parts = []
    for cut in np.split(np.arange(400), sorted((first, second))):
        parts.append(fold(model, times[cut], values[cut]))
        model = AnomalyModel.from_state(model.state())
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_a_repeated_or_earlier_time_changes_nothing() -> None:
    times, values = noise(200)
    model = AnomalyModel()
    fold(model, times, values)
    before = model.state()
    last = fold(AnomalyModel(), times, values)[-1]
    assert model.update(int(times[-1]), 1e9) == last
    assert model.update(0, 1e9) == last
    assert model.state() == before


def test_it_is_ready_after_its_warm_up_and_scores_a_jump_as_an_onset_once() -> None:
    times, values = noise(2000)
    values[1500:1510] += 500.0
    scores = fold(AnomalyModel(), times, values)
    assert np.flatnonzero(scores >= ANOMALY_THRESHOLD).tolist() == [1500]
    assert np.isnan(scores[0])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"", "not the state of an anomaly model"),
        (b"rubbish that is long enough", "not the state of an anomaly model"),
        (AnomalyModel().state()[:-1], "bytes where"),
        (AnomalyModel().state()[:4] + b"\xff\x7f" + AnomalyModel().state()[6:], "version 32767"),
    ],
)
def test_a_state_of_another_version_or_of_something_else_is_refused(
    state: bytes, message: str
) -> None:
    with pytest.raises(StallwatchError, match=message):
        AnomalyModel.from_state(state)


def test_the_version_is_in_the_state() -> None:
    assert int.from_bytes(AnomalyModel().state()[4:6], "little") == MODEL_VERSION
