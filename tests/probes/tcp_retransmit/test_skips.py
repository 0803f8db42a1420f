"""Hits that the counting program did not see, told from hits between two readings."""

from __future__ import annotations

from probes.tcp_retransmit.kernel import Skips


def test_a_hit_between_the_two_readings_is_no_skip() -> None:
    skips = Skips()
    for hits, runs in [(10, 10), (21, 20), (30, 30), (41, 40), (50, 50)]:
        skips.see(hits, runs)
    assert skips.total == 0


def test_a_skip_that_stays_is_told_and_never_taken_back() -> None:
    skips = Skips()
    totals = []
    for hits, runs in [(10, 10), (20, 18), (30, 28), (40, 39), (50, 45)]:
        skips.see(hits, runs)
        totals.append(skips.total)
    assert totals == [0, 0, 2, 2, 2]


def test_runs_from_before_the_counter_was_attached_are_no_skips() -> None:
    skips = Skips()
    skips.see(0, 3)
    skips.see(10, 13)
    assert skips.total == 0
