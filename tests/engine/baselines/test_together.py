"""Elements that have points at the same times are folded together, with the bits of each alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines import fold as module
from engine.baselines.alike import alike
from engine.baselines.fold import Fold
from engine.baselines.points import Key, Points
from engine.baselines.settings import BaselineSettings
from engine.labels import Labels

STEP_MS = 10_000
TIMES = np.arange(400, dtype=np.int64) * STEP_MS


def element(number: int) -> Key:
    return Labels.of(__name__="x", i=str(number)), False


def points(number: int, times: np.ndarray) -> Points:
    values = np.random.default_rng([number, len(times)]).normal(size=len(times))
    return Points(element(number), times, values)


def some(keep: list[bool]) -> np.ndarray:
    """Times of which some are missing, a long stretch among them."""
    return TIMES[np.resize(keep, 400) | (TIMES < 100 * STEP_MS)]


def states(fold: Fold) -> list[tuple[Key, bytes, int, bytes]]:
    axis = TIMES + 1
    return [
        (key, one.model.state(), one.last_ms, fold.scores([key], axis).tobytes())
        for key, one in sorted(fold.elements.items())
    ]


@settings(max_examples=15, deadline=None)
@given(
    shapes=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    ttl_steps=st.sampled_from([3, 1000]),
    cut=st.integers(0, 400),
)
def test_the_bits_are_those_of_one_element_after_another(
    shapes: list[int], ttl_steps: int, cut: int
) -> None:
    times = [TIMES, some([True, False]), some([*[False] * 9, True])]
    whole = [points(number, times[shape]) for number, shape in enumerate(shapes)]
    found = []
    for together in (2, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "TOGETHER", together)
            fold = Fold(BaselineSettings(ttl_ms=ttl_steps * STEP_MS))
            for until_ms in (cut * STEP_MS, 400 * STEP_MS):
                parts = [
                    Points(
                        one.key,
                        one.times_ms[one.times_ms <= until_ms],
                        one.values[one.times_ms <= until_ms],
                    )
                    for one in whole
                ]
                fold.take([one for one in parts if len(one.times_ms)], until_ms, -1)
            found.append(states(fold))
    assert found[0] == found[1]


def test_those_are_alike_whose_times_are_the_same() -> None:
    odd = TIMES.copy()
    odd[200] += 1
    given = [points(0, TIMES), points(1, odd), points(2, TIMES.copy()), points(3, TIMES[1:])]
    groups = [[one.key for one in group] for group in alike(given)]
    assert groups == [[element(0), element(2)], [element(1)], [element(3)]]
