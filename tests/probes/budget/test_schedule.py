"""Slices lie anywhere: no moment of a stratum is watched less than another."""

from __future__ import annotations

import random

import numpy as np

from probes.budget.schedule import Schedule


def test_every_moment_is_as_likely_to_be_watched_as_any_other() -> None:
    chance = random.Random(4)
    length, slice_seconds = 5.0, 1.0
    watched = np.zeros(50)
    schedule = Schedule(0.0, length, chance)
    for _ in range(20_000):
        first = round((schedule.due % length) * 10)
        for tenth in range(int(slice_seconds * 10)):
            watched[(first + tenth) % 50] += 1
        schedule.take(schedule.due)
        schedule.advance(length)
    assert np.all(np.abs(watched / watched.mean() - 1) < 0.1)


def test_a_slice_that_came_late_stands_for_all_of_the_time_until_then() -> None:
    schedule = Schedule(100.0, 5.0, random.Random(1))
    assert schedule.take(117.0) == (100.0, 17.0)
    assert schedule.is_over(117.0)
    schedule.advance(5.0)
    assert schedule.start == 117.0
    assert 117.0 <= schedule.due < 122.0


def test_a_stratum_is_not_over_before_its_slice() -> None:
    schedule = Schedule(0.0, 5.0, random.Random(1))
    assert not schedule.is_over(100.0)
