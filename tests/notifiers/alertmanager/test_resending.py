"""What an Alertmanager is told again, minute by minute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifiers.alertmanager.resending import Resender, valid_until_ms

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000


def test_what_fires_is_told_again_each_minute(support: Any) -> None:
    resender, alert = Resender(), support.firing()
    resender.told([alert], START_MS)
    assert resender.due(START_MS + MINUTE_MS - 1) == ()
    assert resender.next_ms() == START_MS + MINUTE_MS
    assert resender.due(START_MS + MINUTE_MS) == (alert,)
    resender.told([alert], START_MS + MINUTE_MS)
    assert resender.due(START_MS + MINUTE_MS) == ()
    assert resender.due(START_MS + 60 * MINUTE_MS) == (alert,)


def test_an_end_is_told_for_a_quarter_of_an_hour(support: Any) -> None:
    resender = Resender()
    ended = replace(support.resolved(support.firing()), resolved_at_ms=START_MS)
    resender.told([support.firing()], START_MS - MINUTE_MS)
    resender.told([ended], START_MS)
    told = []
    for minute in range(1, 30):
        now_ms = START_MS + minute * MINUTE_MS
        due = resender.due(now_ms)
        told += [(minute, alert) for alert in due]
        resender.told(due, now_ms)
    assert told == [(minute, ended) for minute in range(1, 16)]
    assert (len(resender), resender.next_ms()) == (0, None)


def test_what_fires_again_is_firing_again(support: Any) -> None:
    resender, alert = Resender(), support.firing()
    resender.told([replace(support.resolved(alert), resolved_at_ms=START_MS)], START_MS)
    resender.told([alert], START_MS + 1)
    assert resender.due(START_MS + 60 * MINUTE_MS) == (alert,)


def test_what_is_forgotten_is_not_told_again(support: Any) -> None:
    resender, alert = Resender(), support.firing()
    resender.told([alert], START_MS)
    resender.forget([alert, support.firing("NeverTold")])
    assert resender.due(START_MS + MINUTE_MS) == ()


def test_a_clock_that_is_set_back_stops_nothing(support: Any) -> None:
    resender, alert = Resender(), support.firing()
    resender.told([alert], START_MS)
    assert resender.due(START_MS - 3600_000) == (alert,)


def test_an_alert_outlives_three_lost_words() -> None:
    assert valid_until_ms(START_MS, 10_000) == START_MS + 4 * MINUTE_MS
    assert valid_until_ms(START_MS, 300_000) == START_MS + 20 * MINUTE_MS


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["fires", "ends"]), st.integers(0, 25)),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS)
def test_the_resender_tells_what_a_list_of_all_words_says(events: Any) -> None:
    """The reference looks through everything that was ever said."""
    from engine.alerts.alert import Alert, AlertState
    from engine.labels import Labels

    resender = Resender()
    words: list[tuple[int, Alert]] = []
    now_ms = START_MS
    for number, what, minutes in events:
        now_ms += minutes * MINUTE_MS // 2
        labels = Labels.of(alertname=f"A{number}")
        state = AlertState.FIRING if what == "fires" else AlertState.RESOLVED
        ended = now_ms if what == "ends" else None
        alert = Alert(labels, {}, state, 1.0, START_MS, START_MS, ended)
        resender.told([alert], now_ms)
        words.append((now_ms, alert))
        now_ms += minutes * MINUTE_MS // 2
        last = {said.labels: (at_ms, said) for at_ms, said in words}
        expected = {
            said.labels
            for at_ms, said in last.values()
            if now_ms - at_ms >= MINUTE_MS
            and (said.resolved_at_ms is None or now_ms - said.resolved_at_ms <= 15 * MINUTE_MS)
        }
        due = resender.due(now_ms)
        assert {said.labels for said in due} == expected
        resender.told(due, now_ms)
        words += [(now_ms, said) for said in due]
