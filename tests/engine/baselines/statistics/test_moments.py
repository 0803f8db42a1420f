"""Fading moments beside the weighted sums that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.statistics.moments import FadingMoments


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0.001, 0.9))
@settings(deadline=None)
def test_they_are_the_weighted_mean_and_variance(values: list[float], alpha: float) -> None:
    moments = FadingMoments(alpha)
    for value in values:
        moments.update(value)
    weights = (1.0 - alpha) ** np.arange(len(values))[::-1]
    mean = np.average(values, weights=weights)
    variance = np.average((np.array(values) - mean) ** 2, weights=weights)
    assert moments.get()[0] == pytest.approx(mean, rel=1e-9, abs=1e-3)
    assert moments.get()[1] == pytest.approx(variance, rel=1e-9, abs=1e-3)
