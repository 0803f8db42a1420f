"""The fading record beside a look back over all values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.baselines.statistics.record import RENEWS, FadingRecord


def slow(values: list[float], hold: int, fade: float) -> float:
    """The record told from the start: each value takes or renews it, or it grows older."""
    record, last = 0.0, 0
    for i, value in enumerate(values):
        if i - last > hold:
            record *= 1.0 - fade
        if value >= RENEWS * record:
            record, last = max(record, value), i + 1
    return record


@given(st.lists(st.floats(0.0, 1e6), max_size=60), st.integers(0, 20), st.floats(0.0, 0.5))
@settings(deadline=None)
def test_it_is_what_a_look_back_finds(values: list[float], hold: int, fade: float) -> None:
    record = FadingRecord(hold, fade)
    for value in values:
        record.update(value)
    assert record.get() == slow(values, hold, fade)


def test_it_is_the_maximum_while_it_is_held() -> None:
    record = FadingRecord(100, 0.1)
    for value in [3.0, 7.0, *[1.0] * 100]:
        record.update(value)
    assert record.get() == 7.0


def test_it_fades_once_nothing_came_near_it() -> None:
    record = FadingRecord(2, 0.5)
    for value in [8.0, 1.0, 1.0, 1.0, 1.0]:
        record.update(value)
    assert record.get() == pytest.approx(4.0)
