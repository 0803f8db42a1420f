"""Alerts that flap: told once as flapping, once when they are calm; their end is owed as ever."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from notifiers.dispatch.flapping import ANNOTATION, FlapRule, Flaps
from notifiers.dispatch.log import NotificationLog
from notifiers.simulation import simulate
from tests.notifiers.dispatch.timeline import (
    START,
    alert,
    dispatcher,
    events,
    inhibits,
    route,
    told,
)

if TYPE_CHECKING:
    from notifiers.routing.tree import Route

# More than three changes within ten minutes, until none has come for five.
RULE = FlapRule(changes=3, window_ms=600_000, calm_ms=300_000)
QUICK = route(wait=0, interval=10)


def flapping(root: Route, *lines: str, until: float = 3000, **settings: Any) -> list[str]:
    return told(root, *lines, until=until, flaps=Flaps(RULE), **settings)


def toggles(begin: int, count: int, every: int = 60) -> list[str]:
    """Alert A of node n1 fires, resolves, fires, ..."""
    return [f"{begin + n * every} {'-' if n % 2 else '+'}A/n1" for n in range(count)]


def seconds(line: str) -> int:
    return int(line.split(maxsplit=1)[0])


def test_an_alert_that_changes_rarely_is_told_each_time() -> None:
    assert flapping(QUICK, *toggles(0, 4, every=400)) == [
        "0 ops: +A/n1 (first notification)",
        "410 ops: -A/n1 (all alerts resolved)",
        "800 ops: +A/n1 (new alerts added)",
        "1210 ops: -A/n1 (all alerts resolved)",
    ]


def test_an_alert_that_flaps_is_told_once_and_its_end_when_it_is_calm() -> None:
    assert flapping(QUICK, *toggles(0, 14)) == [
        "0 ops: +A/n1 (first notification)",
        "70 ops: -A/n1 (all alerts resolved)",
        "120 ops: +A/n1 (new alerts added)",
        # The fourth change, a resolution: the digest, and then nothing.
        "190 ops: +A/n1 (new alerts added)",
        # The last change came at 780.
        "1080 ops: -A/n1 (all alerts resolved)",
    ]


def test_one_that_is_calm_and_fires_is_told_once_more_and_its_end_later() -> None:
    found = flapping(QUICK, *toggles(0, 5), "2000 -A/n1")
    assert found[3:] == [
        "190 ops: +A/n1 (new alerts added)",
        "540 ops: +A/n1 (new alerts added)",
        "2010 ops: -A/n1 (all alerts resolved)",
    ]


def test_the_digest_says_how_often_and_what_it_does_now() -> None:
    end_ms = START + 3_000_000
    one = dispatcher(route(wait=0, interval=300), flaps=Flaps(RULE))
    sent = list(simulate(one, events(*toggles(0, 14)), end_ms))
    said = [each.message.alerts[0].annotations.get(ANNOTATION) for each in sent]
    assert said == [
        None,
        "changed 5 times in 4m, firing now",
        "changed 14 times in 13m, calm for 5m",
    ]
    # What flaps counts as firing, whatever it does: nobody is told of its end meanwhile.
    assert [each.message.alerts[0].state.value for each in sent] == [
        "firing",
        "firing",
        "resolved",
    ]


def test_repeats_come_as_of_any_alert_that_fires() -> None:
    found = flapping(route(wait=0, interval=10, repeat=900), *toggles(0, 31), until=2800)
    assert found[3:] == [
        "190 ops: +A/n1 (new alerts added)",
        "1100 ops: +A/n1 (repeat interval elapsed)",
        "2010 ops: +A/n1 (repeat interval elapsed)",
        "2100 ops: +A/n1 (new alerts added)",
    ]


def test_others_of_its_group_are_told_as_ever() -> None:
    assert flapping(QUICK, *sorted([*toggles(0, 8), "250 +A/n2", "300 -A/n2"], key=seconds))[
        4:
    ] == [
        "260 ops: +A/n1 +A/n2 (new alerts added)",
        "310 ops: +A/n1 -A/n2 (some alerts resolved)",
        "720 ops: -A/n1 (all alerts resolved)",
    ]


def test_what_flaps_inhibits_all_the_time() -> None:
    root = route(wait=0, interval=10, group_by=None)
    rules = [inhibits('alertname="A"', 'alertname="B"')]
    # A flaps from 180 on and changes for the last time, to resolved, at 300.
    found = flapping(root, *toggles(0, 6), "310 +B/n2", until=1400, rules=rules)
    assert [line for line in found if "B/n2" in line] == ["600 ops: +B/n2 (first notification)"]


def test_a_change_that_nobody_saw_counts_too() -> None:
    flaps = Flaps(RULE)
    own = "a"
    assert not flaps.take(own, alert("A/n1", 0))[1]
    # It fires since another time: it has resolved and fired again in between.
    assert not flaps.take(own, alert("A/n1", 60))[1]
    shown, begins = flaps.take(own, alert("A/n1", 120))
    assert begins
    assert shown.annotations[ANNOTATION] == "changed 4 times in 1m, firing now"


def test_the_same_state_again_is_no_change() -> None:
    flaps = Flaps(RULE)
    for _ in range(9):
        assert flaps.take("a", alert("A/n1", 0)) == (alert("A/n1", 0), False)
    assert flaps.changed == {"a"}


def test_what_has_been_told_as_resolved_is_not_told_as_firing_to_say_that_it_flaps() -> None:
    flaps = Flaps(RULE)
    flaps.take("a", alert("A/n1", 10, over=True))
    for second in (20, 30):
        over = alert("A/n1", second, over=True)
        assert flaps.take("a", over) == (over, False)
    shown, begins = flaps.take("a", alert("A/n1", 40))
    assert begins
    assert shown.annotations[ANNOTATION] == "changed 4 times in 20s, firing now"


def test_a_clock_that_is_set_back_keeps_nothing_flapping() -> None:
    flaps = Flaps(RULE)
    for second in range(0, 60, 10):
        flaps.take("a", alert("A/n1", second, over=bool(second % 20)))
    assert flaps.calmed(START + 60_000) == ([], [])
    assert len(flaps) == 1
    assert flaps.calmed(START - 1)[1] == ["a"]
    assert len(flaps) == 0


def test_what_has_not_changed_for_the_window_is_forgotten() -> None:
    flaps = Flaps(RULE)
    flaps.take("a", alert("A/n1", 0))
    flaps.take("b", alert("A/n2", 300))
    flaps.saved()
    flaps.sweep(START + 600_000)
    assert (flaps.course("a"), flaps.changed) == (None, {"a"})
    assert flaps.course("b") is not None


def slow(changes: list[float], now: float) -> bool:
    """Whether an alert flaps at a time, from all of its changes so far."""
    begun = False
    recent: list[float] = []
    last = None
    for at in changes:
        if begun and last is not None and at - last >= RULE.calm_ms / 1000:
            begun, recent = False, []
        recent = [each for each in [*recent, at] if at - each < RULE.window_ms / 1000]
        begun = begun or len(recent) > RULE.changes
        last = at
    return begun and last is not None and now - last < RULE.calm_ms / 1000


@pytest.mark.parametrize("seed", range(30))
def test_what_flaps_is_what_a_slow_count_says(seed: int) -> None:
    luck = random.Random(seed)
    flaps, changes, at = Flaps(RULE), [], 0.0
    for number in range(60):
        at += luck.choice([5, 60, 100, 200, 310])
        one = alert("A/n1", at, over=bool(number % 2))
        flaps.calmed(START + round(at * 1000))
        changes.append(at)
        flaps.take("a", one)
        assert (len(flaps) == 1) == slow(changes, at)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_was_told_that_it_fires_is_told_of_its_end_and_of_nothing_else(seed: int) -> None:
    """However it changes: firings and ends alternate for each receiver, and an end is the last."""
    luck = random.Random(seed)
    at, lines = 0, []
    for number in range(2 * luck.randint(2, 20)):
        at += luck.choice([20, 60, 200, 700])
        lines.append(f"{at} {'-' if number % 2 else '+'}A/n1")
    log = NotificationLog()
    root = route(wait=0, interval=luck.choice([10, 60, 300]))
    found = flapping(root, *lines, until=at + 2000, log=log)
    ends = [line.split()[2].startswith("-") for line in found]
    # A firing may be told again (a digest), an end never.
    assert not any(first and second for first, second in pairwise(ends))
    assert not ends or (not ends[0] and ends[-1])
    entries = [log.entry(*key) for key in log.changed]
    assert not any(entry.told for entry in entries if entry is not None)
