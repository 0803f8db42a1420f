"""How a silence may change, as Alertmanager's silence_test.go has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from notifiers.silences.changes import changed, expired
from notifiers.silences.silence import SilenceError


def test_it_holds_from_its_start_until_its_end(support: Any) -> None:
    one = support.silence(starts=1000, ends=2000)
    states = [one.state(support.now_ms + at) for at in (0, 999, 1000, 1999, 2000, 9999)]
    assert states == ["pending", "pending", "active", "active", "expired", "expired"]


def test_a_new_silence_gets_an_id_and_never_begins_in_the_past(support: Any) -> None:
    wanted = support.silence(starts=-5000)
    (made,) = changed(None, wanted, support.now_ms, "new")
    assert made == replace(
        wanted, id="new", starts_at_ms=support.now_ms, updated_at_ms=support.now_ms
    )
    (later,) = changed(None, support.silence(starts=5000), support.now_ms, "new")
    assert later.starts_at_ms == support.now_ms + 5000


IN_PLACE = [
    ("active, a later end", {"starts": -5000}, {"starts": -5000, "ends": 9_000_000}),
    ("active, an earlier end", {"starts": -5000}, {"starts": -5000, "ends": 1}),
    ("active, the start to the second", {"starts": -5000}, {"starts": -4999}),
    ("active, another comment", {"starts": -5000}, {"starts": -5000, "comment": "b"}),
    ("pending, another start", {"starts": 5000}, {"starts": 10_000}),
    ("pending, from now on", {"starts": 5000}, {"starts": 0}),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in IN_PLACE])
def test_what_leaves_history_alone_changes_the_silence_itself(
    before: dict[str, Any], after: dict[str, Any], support: Any
) -> None:
    wanted = support.silence(identity="a", **after)
    made = changed(support.silence(identity="a", **before), wanted, support.now_ms, "new")
    assert made == (replace(wanted, updated_at_ms=support.now_ms),)


REPLACED = [
    ("active, other matchers", {"starts": -5000}, {"matchers": "a=b", "starts": -5000}),
    ("active, another start", {"starts": -5000}, {"starts": -6000}),
    ("pending, a start in the past", {"starts": 5000}, {"starts": -1000}),
    ("pending, other matchers", {"starts": 5000}, {"matchers": "a=b", "starts": 5000}),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in REPLACED])
def test_what_would_rewrite_history_ends_the_silence_and_begins_another(
    before: dict[str, Any], after: dict[str, Any], support: Any
) -> None:
    previous = support.silence(identity="a", **before)
    wanted = support.silence(identity="a", **after)
    old, new = changed(previous, wanted, support.now_ms, "new")
    assert old == expired(previous, support.now_ms)
    assert old.state(support.now_ms) == "expired"
    assert (new.id, new.matchers, new.ends_at_ms) == ("new", wanted.matchers, wanted.ends_at_ms)
    assert new.starts_at_ms == max(wanted.starts_at_ms, support.now_ms)


def test_an_expired_silence_is_never_woken_but_copied(support: Any) -> None:
    previous = support.silence(identity="a", starts=-9000, ends=-1000)
    wanted = support.silence(identity="a", starts=-9000)
    (made,) = changed(previous, wanted, support.now_ms, "new")
    assert (made.id, made.starts_at_ms) == ("new", support.now_ms)


def test_an_expired_one_expires_no_further_and_a_pending_one_never_was(support: Any) -> None:
    ended = support.silence(starts=-9000, ends=-1000)
    assert expired(ended, support.now_ms) == ended
    never = expired(support.silence(starts=5000), support.now_ms)
    assert (never.starts_at_ms, never.ends_at_ms) == (support.now_ms, support.now_ms)


@pytest.mark.parametrize(
    ("matchers", "times", "message"),
    [
        ("{}", {}, "at least one matcher required"),
        ('a=""', {}, "at least one matcher must not match the empty string"),
        ('a=~".*", b=""', {}, "at least one matcher must not match the empty string"),
        ('""="x"', {}, 'invalid label matcher 0: invalid label name ""'),
        ("a=b", {"ends": -1, "starts": 0}, "end time must not be before start time"),
        ("a=b", {"ends": 10**15}, "its times must lie between 1970 and 9999"),
        ("a=b", {"comment": "\ud800"}, "a text in it is not valid UTF-8"),
    ],
)
def test_a_silence_that_cannot_be_is_refused(
    matchers: str, times: dict[str, Any], message: str, support: Any
) -> None:
    with pytest.raises(SilenceError, match=message):
        changed(None, support.silence(matchers, **times), support.now_ms, "new")


@pytest.mark.parametrize("matchers", ['a!="b"', 'a="", b=c', 'a!~".+"'])
def test_a_matcher_that_excludes_asks_for_something(matchers: str, support: Any) -> None:
    assert changed(None, support.silence(matchers), support.now_ms, "new")
