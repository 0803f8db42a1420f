"""Error bounds against quantiles and laws that are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from probes.budget.bounds import bounded_mean, student


@pytest.mark.parametrize("degrees", [1, 2, 5, 30, 31, 60, 500])
def test_student_is_the_quantile_of_scipy(degrees: int) -> None:
    assert student(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-3)


def test_student_rounds_degrees_down_and_knows_nothing_below_one() -> None:
    assert student(5.9) == student(5)
    assert student(0.6) == float("inf")


def half_width(mean: float, low: float, high: float, count: float) -> float:
    return bounded_mean(mean, low, high, count)


def test_nothing_seen_in_n_slices_leaves_room_for_a_rare_burst() -> None:
    # (1 - p) ** 12 = 0.025, as of Clopper and Pearson.
    assert half_width(0, 0, 1, 12) == pytest.approx(1 - 0.025 ** (1 / 12), rel=1e-6)


def test_a_range_of_no_width_leaves_no_doubt() -> None:
    assert half_width(5, 5, 5, 3) == 0


def test_the_bound_scales_with_the_range() -> None:
    assert half_width(30, 10, 50, 20) == pytest.approx(40 * half_width(0.5, 0, 1, 20))


@pytest.mark.parametrize("chance", [0.02, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("count", [3, 12, 60])
def test_the_bound_holds_for_coins_of_any_bias(chance: float, count: int) -> None:
    seen = np.arange(count + 1) / count
    weights = stats.binom.pmf(np.arange(count + 1), count, chance)
    width = np.array([bounded_mean(mean, 0, 1, count) for mean in seen.tolist()])
    assert weights[np.abs(seen - chance) <= width].sum() >= 0.95
