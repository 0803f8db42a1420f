"""However its points come, a baseline knows what the definition says, with the same bits."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.fold import Fold
from engine.baselines.points import Key, Points
from engine.baselines.settings import BaselineSettings
from engine.labels import Labels
from tests.engine.baselines.reference import SlowFold

STEP_MS = 10_000
STEPS = 400
NEVER_MS = -1


def element(number: int) -> Key:
    return Labels.of(__name__="x", i=str(number)), False


def drawn(seed: int, elements: int) -> dict[Key, dict[int, float]]:
    """Noise with a jump, at times that jitter or do not, with gaps short and long."""
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(elements):
        times = np.arange(STEPS) * STEP_MS
        if rng.random() < 0.5:
            times = times + rng.integers(0, STEP_MS, STEPS)
        here = rng.random(STEPS) < rng.choice([0.3, 0.95, 1.0])
        start, length = rng.integers(0, STEPS, 2)
        here[start : start + length // 4] = False
        values = rng.normal(size=STEPS) + np.where(np.arange(STEPS) > rng.integers(STEPS), 9, 0)
        chosen = np.flatnonzero(here).tolist()
        found[element(number)] = {int(times[one]): float(values[one]) for one in chosen}
    return found


def points_between(
    points: dict[Key, dict[int, float]], after_ms: int, until_ms: int
) -> list[Points]:
    found = []
    for key, own in points.items():
        times = sorted(time for time in own if after_ms < time <= until_ms)
        values = np.array([own[time] for time in times], dtype=np.float64)
        found.append(Points(key, np.array(times, dtype=np.int64), values))
    return found


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    elements=st.integers(1, 6),
    most=st.integers(1, 6),
    ttl_steps=st.sampled_from([3, 40, 1000]),
    cuts=st.lists(st.integers(0, STEPS * STEP_MS), max_size=8),
)
def test_pieces_of_any_length_give_the_bits_of_the_definition(
    seed: int, elements: int, most: int, ttl_steps: int, cuts: list[int]
) -> None:
    own = BaselineSettings(ttl_ms=ttl_steps * STEP_MS, max_series=most)
    points = drawn(seed, elements)
    asked = np.arange(0, (STEPS + 1) * STEP_MS, 7_000, dtype=np.int64)
    slow = SlowFold(own)
    expected = slow.at(points, asked.tolist())

    fold = Fold(own)
    for after_ms, until_ms in pairwise([NEVER_MS, *sorted(set(cuts)), STEPS * STEP_MS]):
        fold.take(points_between(points, after_ms, until_ms), until_ms, NEVER_MS)

    keys = list(points)
    found = fold.scores(keys, asked)
    for row, key in enumerate(keys):
        assert_same_where_asked(found[row], np.array(expected[key]), points[key], asked)
    # Elements that the time to live ended are not counted.
    assert fold.evicted == slow.evicted


def assert_same_where_asked(
    found: np.ndarray, expected: np.ndarray, own: dict[int, float], asked: np.ndarray
) -> None:
    """The bits are the same; NaN is the same whatever its bits."""
    assert np.array_equal(np.isnan(found), np.isnan(expected)), (own, asked)
    here = ~np.isnan(expected)
    assert found[here].tobytes() == expected[here].tobytes()


def test_over_the_bound_the_least_recently_updated_goes_and_of_equals_the_first_by_labels() -> None:
    fold = Fold(BaselineSettings(max_series=2))
    times = np.array([10_000], dtype=np.int64)
    both = [Points(element(number), times, np.ones(1)) for number in (1, 2)]
    fold.take(both, 10_000, 0)
    fold.take([Points(element(0), times + 10_000, np.ones(1))], 20_000, 0)
    assert sorted(fold.elements) == [element(0), element(2)]
    assert fold.evicted == 1


def test_an_element_that_was_away_longer_than_the_time_to_live_learns_anew() -> None:
    fold = Fold(BaselineSettings(ttl_ms=600_000))
    times = np.arange(1, 201, dtype=np.int64) * STEP_MS
    fold.take([Points(element(0), times, np.arange(200.0))], 2_000_000, 0)
    assert fold.ready() == 1
    fold.take([], 2_600_000, 0)
    assert fold.ready() == 1
    fold.take([], 2_600_001, 0)
    assert fold.ready() == 0
    assert not fold.elements
    (score,) = fold.scores([element(0)], np.array([2_600_001]))[0]
    assert math.isnan(score)


def test_what_is_read_twice_is_taken_once() -> None:
    points = drawn(7, 2)
    once, twice = Fold(BaselineSettings()), Fold(BaselineSettings())
    end_ms = STEPS * STEP_MS
    once.take(points_between(points, NEVER_MS, end_ms), end_ms, 0)
    for until_ms in range(0, end_ms + 1, 50 * STEP_MS):
        twice.take(points_between(points, until_ms - 90 * STEP_MS, until_ms), until_ms, 0)
    asked = np.arange(0, end_ms, STEP_MS, dtype=np.int64)
    keys = list(points)
    assert once.scores(keys, asked).tobytes() == twice.scores(keys, asked).tobytes()


def test_scores_of_the_distant_past_are_forgotten() -> None:
    points = drawn(3, 1)
    fold = Fold(BaselineSettings())
    end_ms = STEPS * STEP_MS
    for until_ms in range(0, end_ms + 1, STEP_MS):
        keep_ms = until_ms - 20 * STEP_MS
        fold.take(points_between(points, until_ms - STEP_MS, until_ms), until_ms, keep_ms)
    whole = Fold(BaselineSettings())
    whole.take(points_between(points, NEVER_MS, end_ms), end_ms, 0)
    assert fold.kept_ms == end_ms - 20 * STEP_MS
    kept = np.arange(fold.kept_ms, end_ms, 1_000, dtype=np.int64)
    assert np.array_equal(
        fold.scores(list(points), kept), whole.scores(list(points), kept), equal_nan=True
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_copy_goes_on_by_itself(number: int) -> None:
    points = drawn(number, 2)
    end_ms, middle_ms = STEPS * STEP_MS, STEPS * STEP_MS // 2
    fold = Fold(BaselineSettings())
    fold.take(points_between(points, NEVER_MS, middle_ms), middle_ms, 0)
    other = fold.copy()
    other.take(points_between(points, middle_ms, end_ms), end_ms, 0)
    assert fold.folded_ms == middle_ms
    fold.take(points_between(points, middle_ms, end_ms), end_ms, 0)
    asked = np.arange(0, end_ms, STEP_MS, dtype=np.int64)
    keys = list(points)
    assert fold.scores(keys, asked).tobytes() == other.scores(keys, asked).tobytes()


def test_several_processes_give_the_bits_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.baselines.fold.FORK_POINTS", 1)
    own = BaselineSettings(ttl_ms=40 * STEP_MS)
    points, end_ms = drawn(9, 7), STEPS * STEP_MS
    folds = {}
    for processes in (1, 3):
        fold = folds[processes] = Fold(own)
        for after_ms, until_ms in pairwise([NEVER_MS, end_ms // 3, end_ms // 2, end_ms]):
            found = points_between(points, after_ms, until_ms)
            fold.take(found, until_ms, NEVER_MS, processes)
    asked = np.arange(0, end_ms, STEP_MS // 2, dtype=np.int64)
    keys = list(points)
    assert folds[3].scores(keys, asked).tobytes() == folds[1].scores(keys, asked).tobytes()
    alike = [
        {key: one.model.state() for key, one in fold.elements.items()} for fold in folds.values()
    ]
    assert alike[0] == alike[1]
