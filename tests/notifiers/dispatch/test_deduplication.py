from __future__ import annotations

import pytest

from notifiers.dispatch.deduplication import (
    REFUSED_PAUSE_MS,
    RETENTION_MS,
    decide,
    not_told,
)
from notifiers.dispatch.log import LogEntry

HOUR = 3_600_000
NOW = 1_700_000_000_000


def entry(firing: str, told: str = "", sent_ms: int = NOW - 60_000) -> LogEntry:
    """Each letter is an alert."""
    told = told or firing
    return LogEntry(sent_ms, sent_ms + 8 * HOUR, frozenset(firing), frozenset(told))


# (what the log has, firing, resolved, the reason, resolutions told)
CASES = [
    (None, "", "", "", ""),
    (None, "A", "", "first notification", ""),
    # Fired and resolved between two flushes: nobody heard of it.
    (None, "", "A", "", ""),
    (None, "A", "B", "first notification", ""),
    (entry("A"), "A", "", "", ""),
    (entry("A"), "AB", "", "new alerts added", ""),
    (entry("AB"), "A", "B", "some alerts resolved", "B"),
    (entry("AB"), "A", "", "", ""),
    (entry("AB"), "", "AB", "all alerts resolved", "AB"),
    (entry("A"), "", "AB", "all alerts resolved", "A"),
    (entry(""), "", "A", "", ""),
    # B was muted in the last message, and is owed its end all the same.
    (entry("A", told="AB"), "A", "B", "some alerts resolved", "B"),
    # And is news when it is heard again.
    (entry("A", told="AB"), "AB", "", "new alerts added", ""),
]


@pytest.mark.parametrize(("before", "firing", "resolved", "reason", "over"), CASES)
def test_what_is_news(
    before: LogEntry | None, firing: str, resolved: str, reason: str, over: str
) -> None:
    news = decide(before, set(firing), set(resolved), now_ms=NOW, repeat_ms=4 * HOUR)
    assert (news.reason if news else "") == reason
    if news is not None:
        assert news.firing == set(firing)
        assert news.resolved == set(over)
        assert news.entry.firing == set(firing)
        assert news.entry.told == ((before.told if before else set()) | set(firing)) - set(over)
        assert not news.silent


@pytest.mark.parametrize(("age_ms", "reason"), [(0, ""), (1, "repeat interval elapsed")])
def test_a_repeat_comes_strictly_after_the_interval(age_ms: int, reason: str) -> None:
    before = entry("A", sent_ms=NOW - 4 * HOUR - age_ms)
    news = decide(before, {"A"}, set(), now_ms=NOW, repeat_ms=4 * HOUR)
    assert (news.reason if news else "") == reason


def test_an_entry_lives_twice_the_repeat_interval_and_no_longer_than_the_log() -> None:
    short = decide(None, {"A"}, set(), now_ms=NOW, repeat_ms=HOUR)
    long = decide(None, {"A"}, set(), now_ms=NOW, repeat_ms=1000 * HOUR)
    assert short is not None
    assert long is not None
    assert short.entry.expires_ms == NOW + 2 * HOUR
    assert long.entry.expires_ms == NOW + RETENTION_MS


def test_an_entry_that_has_expired_is_as_good_as_none_except_for_what_is_owed() -> None:
    old = entry("A", sent_ms=NOW - 8 * HOUR)
    again = decide(old, {"A"}, set(), now_ms=NOW, repeat_ms=1000 * HOUR)
    assert again is not None
    assert again.reason == "first notification"
    over = decide(old, set(), {"A"}, now_ms=NOW, repeat_ms=4 * HOUR)
    assert over is not None
    assert over.resolved == {"A"}


def test_who_asks_for_no_resolutions_gets_none_and_the_log_has_them() -> None:
    both = entry("AB")
    some = decide(both, {"A"}, {"B"}, now_ms=NOW, repeat_ms=4 * HOUR, send_resolved=False)
    assert some is not None
    assert some.silent
    # No message, so the next repeat is counted from the last one.
    assert some.entry.sent_ms == both.sent_ms
    assert some.entry.told == {"A"}
    every = decide(both, set(), {"A", "B"}, now_ms=NOW, repeat_ms=4 * HOUR, send_resolved=False)
    assert every is not None
    assert every.silent
    assert not every.entry.firing | every.entry.told
    fresh = decide(both, {"A", "C"}, {"B"}, now_ms=NOW, repeat_ms=4 * HOUR, send_resolved=False)
    assert fresh is not None
    assert not fresh.silent
    assert not fresh.resolved
    assert fresh.entry.told == {"A", "C"}


def test_a_message_that_was_given_up_has_told_nobody_and_is_made_again_a_while_later() -> None:
    after = not_told(entry("AB"), frozenset("B"), NOW)
    assert after.told == {"A"}

    def reason(later_ms: int, firing: str = "AB", over: str = "") -> str:
        news = decide(after, set(firing), set(over), now_ms=NOW + later_ms, repeat_ms=4 * HOUR)
        return news.reason if news else ""

    # A receiver that refuses has no dead letter for each tick, and hears soon when it is mended.
    assert reason(REFUSED_PAUSE_MS - 1) == ""
    assert reason(REFUSED_PAUSE_MS) == "new alerts added"
    # What is new does not wait for it, and nobody is told of the end of what was never told.
    assert reason(1000, "ABC") == "new alerts added"
    assert reason(1000, "A", "B") == ""
    again = decide(after, {"A", "B"}, set(), now_ms=NOW + REFUSED_PAUSE_MS, repeat_ms=4 * HOUR)
    assert again is not None
    assert (again.entry.refused_ms, again.entry.told) == (0, frozenset("AB"))
