"""The range of an hour beside the values that fell into it."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.statistics.daily_range import DAY_MS, DailyRange

HOUR_MS = 3_600_000
POINTS = st.lists(st.tuples(st.integers(-3 * DAY_MS, 3 * DAY_MS), st.floats(-10, 10)), max_size=60)


@given(POINTS, st.integers(0, 23))
@settings(deadline=None)
def test_it_is_the_range_of_all_values_of_that_hour(
    points: list[tuple[int, float]], hour: int
) -> None:
    points = sorted(points)
    daily = DailyRange(2)
    for time_ms, value in points:
        daily.update(time_ms, value)
    of_hour = [(t // DAY_MS, v) for t, v in points if t % DAY_MS // HOUR_MS == hour]
    values = [value for _, value in of_hour]
    known = len({day for day, _ in of_hour}) >= 2
    expected = (min(values), max(values)) if known else (-math.inf, math.inf)
    assert daily.get(hour * HOUR_MS) == expected


def test_an_hour_is_not_known_before_its_days() -> None:
    daily = DailyRange(2)
    for minute in range(60):
        daily.update(minute * 60_000, 1.0)
    assert daily.get(0) == (-math.inf, math.inf)
    daily.update(DAY_MS, 2.0)
    assert daily.get(DAY_MS) == (1.0, 2.0)
