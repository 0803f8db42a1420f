"""What is known of a count that was watched in slices."""

from __future__ import annotations

import numpy as np
import pytest

from probes.budget.estimator import Estimator, Window


def test_what_was_watched_all_the_time_is_exact() -> None:
    estimator = Estimator(2)
    estimator.count(np.array([10.0, 20.0]))
    estimator.count(np.array([1.0, 2.0]))
    estimate = estimator.at(5.0)
    assert estimate.values.tolist() == [11, 22]
    assert estimate.bound == 0


def test_a_slice_stands_for_its_stratum() -> None:
    estimator = Estimator(1)
    estimator.begin(0.0, np.zeros(1))
    for number in range(20):
        estimator.add(Window(5.0 * number, 5.0, 1.0), np.array([100.0]))
    estimate = estimator.at(100.0)
    assert estimate.values[0] == pytest.approx(100 * 100)
    assert estimate.bound == pytest.approx(0, abs=1e-6)


def test_until_the_first_slice_the_rate_before_stands_for_it() -> None:
    estimator = Estimator(1)
    estimator.begin(0.0, np.array([50.0]))
    assert estimator.at(4.0).values[0] == 200


def test_a_count_does_not_fall_when_a_slice_shows_less_and_its_bound_grows_instead() -> None:
    estimator = Estimator(1)
    estimator.begin(0.0, np.array([50.0]))
    estimator.at(4.0)
    estimator.add(Window(0.0, 5.0, 1.0), np.zeros(1))
    estimate = estimator.at(5.0)
    assert estimate.values[0] == 200
    assert estimate.bound >= 200


def test_slices_need_to_have_begun() -> None:
    with pytest.raises(ValueError, match="no slices are being watched"):
        Estimator(1).add(Window(0.0, 5.0, 1.0), np.zeros(1))


def test_a_process_that_was_idle_in_its_only_slices_may_be_as_fast_as_others() -> None:
    estimator = Estimator(1, np.array([1000.0]))
    estimator.begin(0.0, np.zeros(1))
    estimator.add(Window(0.0, 10.0, 1.0), np.zeros(1))
    estimate = estimator.at(10.0)
    assert estimate.values[0] == 0
    assert estimate.bound > 5_000


def test_a_busy_caller_may_make_more_calls_while_nobody_traps_it() -> None:
    estimator = Estimator(1)
    estimator.begin(0.0, np.zeros(1))
    for number in range(20):
        estimator.add(Window(5.0 * number, 5.0, 1.0), np.array([100.0]), trapped=0.2)
    assert estimator.at(100.0).bound == pytest.approx(0.25 * 100 * 100)
