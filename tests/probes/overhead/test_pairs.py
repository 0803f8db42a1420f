"""The paired comparison finds an effect that is there, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from probes.overhead.pairs import Slice, compare, step_cpu_seconds, step_seconds


def drifting_pairs(effect: float, count: int = 40) -> list[tuple[float, float]]:
    """Pairs of a machine whose speed wanders by a factor of three, with 1 % of noise in a slice."""
    random = np.random.default_rng(7)
    speed = 0.005 * (2 + np.sin(np.arange(count) / 5))
    noise = random.normal(1, 0.01, (count, 2))
    return [(v * a, v * b * effect) for v, (a, b) in zip(speed, noise, strict=True)]


@pytest.mark.parametrize("effect", [0.98, 1.0, 1.02])
def test_an_effect_of_two_per_cent_is_told_apart_from_none_though_the_machine_drifts(
    effect: float,
) -> None:
    ratio = compare(drifting_pairs(effect))
    assert ratio.low <= effect <= ratio.high
    assert ratio.high - ratio.low < 0.015
    assert ratio.pairs == 40


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    ratio = compare([(0.005, 0.005)] * 5)
    assert (ratio.value, ratio.low, ratio.high) == (1.0, 1.0, 1.0)


def test_a_slice_counts_the_steps_that_are_wholly_inside() -> None:
    ends = np.array([0.0, 4.0, 5.0, 6.0, 7.5, 8.5, 13.0])
    assert step_seconds(Slice(3.5, 9.0, treated=False), [ends]) == 1.0
    assert step_seconds(Slice(3.5, 9.0, treated=False), [ends, np.array([4.0, 7.0])]) == 2.0


def test_the_cpu_time_of_a_step_is_that_of_the_slice_over_its_steps() -> None:
    ends = np.array([0.0, 4.0, 5.0, 6.0, 7.5, 8.5, 13.0])
    part = Slice(3.5, 9.0, treated=False, cpu_seconds=10.0)
    assert step_cpu_seconds(part, [ends, ends]) == 2.0


def test_a_slice_without_steps_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(ValueError, match=r"no step between 7\.0 s and 8\.0 s"):
        step_seconds(Slice(7.0, 8.0, treated=True), [np.array([0.0, 1.0, 7.5])])
