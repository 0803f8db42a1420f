from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.sampling.spent import spent


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(1, 5000), st.floats(0, 1e4))
def test_time_is_a_share_of_the_cpu_time_and_its_bound_is_not_more_than_all(
    inside: int, samples: int, cpu_seconds: float
) -> None:
    found = spent(cpu_seconds, inside, samples)
    assert 0 <= found.seconds <= cpu_seconds
    assert 0 <= found.bound <= cpu_seconds


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(200, 400), st.integers(2, 50))
def test_more_samples_of_the_same_share_have_a_smaller_bound(
    inside: int, samples: int, times: int
) -> None:
    few, many = spent(10, inside, samples), spent(10, times * inside, times * samples)
    assert many.seconds == pytest.approx(few.seconds)
    assert many.bound < few.bound


@pytest.mark.parametrize("share", [0.0, 0.002, 0.05, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("samples", [10, 100, 1000])
def test_the_truth_is_within_the_bound_in_nineteen_of_twenty_cases(
    share: float, samples: int
) -> None:
    chance = random.Random(samples)
    held = 0
    for _ in range(100):
        inside = sum(chance.random() < share for _ in range(samples))
        found = spent(100.0, inside, samples)
        held += abs(found.seconds - 100 * share) <= found.bound
    assert held >= 95


def test_without_a_sample_it_may_be_all_of_the_time() -> None:
    assert spent(3.0, 0, 0) == (0.0, 3.0)
    assert spent(0.0, 0, 0) == (0.0, 0.0)


def test_no_sample_inside_of_a_thousand_leaves_a_fraction_of_a_percent() -> None:
    found = spent(1000.0, 0, 1000)
    assert found.seconds == 0
    assert found.bound == pytest.approx(3.7, abs=0.1)
