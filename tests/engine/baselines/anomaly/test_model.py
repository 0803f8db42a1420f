"""The model is a pure fold, whatever the data and however they are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.anomaly.model import (
    ANOMALY_THRESHOLD,
    MODEL_VERSION,
    AnomalyModel,
    fold,
)
from engine.baselines.anomaly.settings import WARM_POINTS, Learning
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
@settings(deadline=None, max_examples=60)
def test_a_score_is_within_0_and_1_or_nan_whatever_the_values(
    points: list[tuple[int, float]],
) -> None:
    scores = fold(AnomalyModel(), *arrays(points))
    assert np.all(np.isnan(scores) | ((scores >= 0.0) & (scores <= 1.0)))


@given(st.integers(0, 400), st.integers(0, 400))
@settings(deadline=None, max_examples=20)
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


def onsets(scores: np.ndarray) -> list[int]:
    return np.flatnonzero(scores >= ANOMALY_THRESHOLD).tolist()


def test_it_says_nothing_before_it_is_warm() -> None:
    times, values = noise(WARM_POINTS + 1)
    scores = fold(AnomalyModel(), times, values)
    assert np.isnan(scores).tolist() == [True] * WARM_POINTS + [False]


def test_a_spike_is_one_onset_at_its_first_point() -> None:
    times, values = noise(2000)
    values[1500:1510] += 100.0
    assert onsets(fold(AnomalyModel(), times, values)[1000:]) == [500]


def test_within_the_cool_down_only_what_is_far_stronger_is_told() -> None:
    times, values = noise(2000)
    values[1500], values[1510], values[1520] = 150.0, 160.0, 5000.0
    assert onsets(fold(AnomalyModel(), times, values)[1400:1600]) == [100, 120]


def test_a_step_is_one_onset_and_then_the_new_normal() -> None:
    times, values = noise(3000)
    values[1500:] += 100.0
    assert onsets(fold(AnomalyModel(), times, values)[1000:]) == [500]


@pytest.mark.parametrize(("pause", "within"), [(True, True), (False, False)])
def test_the_band_stays_while_abnormal_and_moves_when_the_accept_time_is_over(
    pause: bool, within: bool
) -> None:
    times, values = noise(2000)
    values[1500:] += 100.0
    model = AnomalyModel(Learning(pause=pause, accept_points=100))
    fold(model, times[:1501], values[:1501])
    before = model.explain().band
    fold(model, times[1501:1590], values[1501:1590])
    assert (model.explain().band == before) is within
    fold(model, times[1590:1700], values[1590:1700])
    lowest, highest = model.explain().band
    assert lowest < 200.0 < highest


def test_more_noise_is_an_onset_by_its_variance_or_its_range() -> None:
    times, values = noise(2000)
    values[1500:] = 100.0 + 4.0 * (values[1500:] - 100.0)
    assert onsets(fold(AnomalyModel(), times, values)[1000:])[0] in range(500, 520)


def test_a_flat_hour_in_a_daily_rhythm_is_an_onset() -> None:
    times = np.arange(14 * 288, dtype=np.int64) * 300_000
    values = 50.0 + 40.0 * np.sin(2.0 * np.pi * np.arange(len(times)) / 288.0)
    assert onsets(fold(AnomalyModel(), times, values)) == []
    peak = 10 * 288 + 72
    values[peak - 20 : peak + 20] = 50.0
    found = onsets(fold(AnomalyModel(), times, values))
    assert found
    assert all(peak - 20 <= index <= peak + 20 + 64 for index in found)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(3000),
        np.full(3000, 0.1),
        np.full(3000, 1e300),
        np.arange(3000.0) * 7.0,
        1e15 + np.arange(3000.0),
        np.tile([1.0, 2.0, 5.0], 1000),
    ],
    ids=["zero", "constant", "huge", "counter", "large counter", "periodic"],
)
def test_what_is_always_alike_has_no_onset(values: np.ndarray) -> None:
    times = np.arange(len(values), dtype=np.int64) * 10_000
    assert onsets(fold(AnomalyModel(), times, values)) == []


def test_the_first_change_of_a_constant_is_an_onset() -> None:
    times = np.arange(1000, dtype=np.int64) * 10_000
    values = np.full(1000, 0.1)
    values[700] = 0.2
    assert onsets(fold(AnomalyModel(), times, values)) == [700]


@given(st.integers(-300, 300), st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_scale_that_is_a_power_of_two_changes_no_bit(power: int, negative: bool) -> None:
    times, values = noise(400)
    values[300] += 40.0
    scale = -(2.0**power) if negative else 2.0**power
    plain = fold(AnomalyModel(), times, values)
    assert fold(AnomalyModel(), times, values * scale).tobytes() == plain.tobytes()


@given(st.floats(1e-9, 1e9), st.floats(-1e6, 1e6))
@settings(deadline=None, max_examples=30)
def test_scale_and_offset_do_not_change_scores(scale: float, offset: float) -> None:
    times, values = noise(400)
    values[300] += 40.0
    plain = fold(AnomalyModel(), times, values)
    moved = fold(AnomalyModel(), times, (values + offset) * scale)
    np.testing.assert_allclose(moved, plain, rtol=1e-3, atol=1e-6)


def test_values_that_are_not_finite_are_passed_over() -> None:
    times, values = noise(600)
    broken = np.repeat(values, 2)
    broken[1::2] = np.resize([np.nan, np.inf, -np.inf], 600)
    scores = fold(AnomalyModel(), np.arange(1200, dtype=np.int64) * 5_000, broken)
    plain = fold(AnomalyModel(), times, values)
    assert scores[0::2].tobytes() == plain.tobytes()
    assert scores[1::2].tobytes() == plain.tobytes()


def test_the_explanation_names_the_part_and_the_band() -> None:
    times, values = noise(1000)
    values[999] = 200.0
    model = AnomalyModel()
    score = fold(model, times, values)[-1]
    explanation = model.explain()
    assert explanation.score == score
    assert explanation.part in {"above", "jump"}
    assert explanation.strengths["above"] > 1.0
    lowest, highest = explanation.band
    assert 60.0 < lowest < 100.0 < highest < 140.0


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
