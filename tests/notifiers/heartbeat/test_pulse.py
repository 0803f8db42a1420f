"""When the sign of life is given, and when it is withheld."""

from __future__ import annotations

from notifiers.heartbeat.pulse import Pulse

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000


def test_nothing_is_said_before_the_first_evaluation() -> None:
    pulse = Pulse(MINUTE_MS, 10_000)
    assert not pulse.due(START_MS, None)
    assert pulse.due(START_MS, START_MS - 5_000)


def test_it_beats_once_an_interval_while_rules_are_evaluated() -> None:
    pulse = Pulse(MINUTE_MS, 10_000)
    beats = []
    for second in range(0, 301, 5):
        now_ms = START_MS + second * 1000
        if pulse.due(now_ms, now_ms - now_ms % 10_000):
            beats.append(second)
            pulse.beat(now_ms, taken=True)
    assert beats == [0, 60, 120, 180, 240, 300]


def test_it_stops_when_evaluation_stands_still_and_goes_on_with_it() -> None:
    pulse = Pulse(MINUTE_MS, 10_000)
    pulse.beat(START_MS, taken=True)
    later_ms = START_MS + 10 * MINUTE_MS
    assert not pulse.due(later_ms, START_MS)
    assert pulse.due(later_ms, later_ms - 30_000)
    assert not pulse.due(later_ms, later_ms - 30_001)


def test_a_beat_that_was_lost_is_tried_again_before_the_monitor_wonders() -> None:
    pulse = Pulse(MINUTE_MS, 10_000)
    pulse.beat(START_MS, taken=False)
    assert pulse.wait_ms(START_MS, START_MS) == 15_000
    assert pulse.due(START_MS + 15_000, START_MS + 10_000)


def test_waits_are_as_long_as_nothing_can_happen() -> None:
    pulse = Pulse(MINUTE_MS, 10_000)
    assert pulse.wait_ms(START_MS, START_MS) == 1
    pulse.beat(START_MS, taken=True)
    assert pulse.wait_ms(START_MS + 1, START_MS) == MINUTE_MS - 1
    assert pulse.wait_ms(START_MS + 10 * MINUTE_MS, START_MS) == 1_000


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    pulse = Pulse(MINUTE_MS, 10_000)
    pulse.beat(START_MS, taken=True)
    assert pulse.due(START_MS - 3600_000, START_MS - 3600_000)
