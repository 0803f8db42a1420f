"""Rate limits: no more than so many messages, nothing lost, and said what was held back."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from notifiers.dispatch.limiting import ANNOTATION, Budget, Limiter, RateLimit, Tally
from notifiers.dispatch.log import LogEntry, NotificationLog
from notifiers.dispatch.message import Addressee
from notifiers.simulation import Sent, simulate
from tests.notifiers.dispatch.timeline import START, dispatcher, events, route, told

if TYPE_CHECKING:
    from notifiers.dispatch.dispatcher import Dispatcher

LIMIT = RateLimit(2, 1_000_000)
OPS: dict[str, Any] = {"addressees": {"ops": [Addressee("ops", limit=LIMIT)]}}
ALONE = route(group_by=None, wait=0, interval=10)


def run(
    *lines: str, until: float = 6000, **settings: Any
) -> tuple[Dispatcher, list[Sent], list[str]]:
    """What came of it, and what each message says was held back."""
    one = dispatcher(ALONE, **{**OPS, **settings})
    sent = list(simulate(one, events(*lines), START + round(until * 1000)))
    return one, sent, [each.message.alerts[0].annotations.get(ANNOTATION, "") for each in sent]


def test_below_the_limit_all_is_as_without() -> None:
    lines = ("0 +A/n1", "100 -A/n1", "2000 +B/n1", "2100 -B/n1")
    assert told(ALONE, *lines, **OPS) == told(ALONE, *lines)
    assert run(*lines)[2] == ["", "", "", ""]


def test_what_is_held_back_is_told_when_there_is_room_again() -> None:
    lines = ("0 +A/n1", "5 +B/n1", "20 +C/n1", "30 -A/n1")
    assert told(ALONE, *lines, until=2500, **OPS) == [
        "0 ops: +A/n1 (first notification)",
        "5 ops: +B/n1 (first notification)",
        # The first two messages are 1000 s old, one after the other; who waits longest comes first.
        "1000 ops: +C/n1 (first notification)",
        "1010 ops: -A/n1 (all alerts resolved)",
    ]


def test_the_next_message_says_what_was_held_back() -> None:
    one, _, said = run("0 +A/n1", "5 +B/n1", "20 +C/n1", "30 -A/n1", "40 +D/n1", until=1500)
    assert said == [
        "",
        "",
        "3 messages since 2023-11-14T22:13:40Z, at most 2 in 16m40s: A, C, D; 2 groups wait",
        "",
    ]
    assert one.limiter.budget("ops").held_total == 3
    assert list(one.limiter.budget("ops").waiting) == ['{}:{alertname="D", node="n1"}']


def test_what_came_and_went_while_it_was_held_back_is_counted_and_not_told() -> None:
    lines = ("0 +A/n1", "5 +B/n1", "20 +C/n1", "100 -C/n1", "2000 -A/n1")
    one, sent, said = run(*lines, until=2500)
    assert [each.message.alerts[0].labels.get("alertname") for each in sent] == ["A", "B", "A"]
    # That it fired, and that it ended: both would have been messages.
    assert said[2] == "2 messages since 2023-11-14T22:13:40Z, at most 2 in 16m40s: C"
    assert not one.limiter.budget("ops").waiting


def test_a_group_tells_in_one_message_what_would_have_been_several() -> None:
    root = route(wait=0, interval=10)
    lines = ["0 +A/n1", "1 +B/n1", *(f"{20 * n} +A/n{n}" for n in range(2, 6)), "150 -A/n2"]
    assert told(root, *lines, until=1500, **OPS)[2:] == [
        "1000 ops: +A/n1 +A/n3 +A/n4 +A/n5 (new alerts added)"
    ]


def test_an_end_that_is_held_back_is_told_in_every_mode() -> None:
    lines = ("0 +A/n1", "5 +B/n1", "30 -A/n1")
    for keeps_owed in (True, False):
        assert told(ALONE, *lines, keeps_owed=keeps_owed, **OPS)[2:] == [
            "1000 ops: -A/n1 (all alerts resolved)"
        ]


def test_repeats_count_and_wait_for_their_tick() -> None:
    root = route(group_by=None, wait=0, interval=10, repeat=400)
    assert told(root, "0 +A/n1", until=2900, **OPS) == [
        "0 ops: +A/n1 (first notification)",
        "410 ops: +A/n1 (repeat interval elapsed)",
        "1000 ops: +A/n1 (repeat interval elapsed)",
        "1410 ops: +A/n1 (repeat interval elapsed)",
        "2000 ops: +A/n1 (repeat interval elapsed)",
        "2410 ops: +A/n1 (repeat interval elapsed)",
    ]


def test_one_integration_waits_and_the_other_one_does_not() -> None:
    both = {"ops": [Addressee("ops", limit=LIMIT), Addressee("web")]}
    lines = ("0 +A/n1", "5 +B/n1", "20 +C/n1")
    found = told(ALONE, *lines, until=900, addressees=both)
    assert [line.split()[1] for line in found] == ["ops:", "web:", "ops:", "web:", "web:"]


def test_who_is_silenced_meanwhile_keeps_no_room() -> None:
    budget = Budget(waiting={"a": LogEntry(0, 0), "b": LogEntry(0, 0)})
    assert budget.allows("a", LIMIT, 5)
    assert budget.allows("b", LIMIT, 5)
    assert not budget.allows("c", LIMIT, 5)
    limiter = Limiter({})
    limiter.restore({"ops": budget})
    limiter.release("ops", "a")
    assert budget.allows("c", LIMIT, 5)
    limiter.sweep({"c"})
    assert not budget.waiting
    assert list(limiter.changed) == [("ops", "a"), ("ops", "b")]


def test_a_clock_that_is_set_back_leaves_room() -> None:
    budget = Budget(sent_ms=[5_000_000, 5_000_001])
    assert not budget.allows("a", LIMIT, 5_000_002)
    assert budget.allows("a", LIMIT, 4_000_000)


def test_many_names_are_counted() -> None:
    tally = Tally(12, START, frozenset(f"A{n:02}" for n in range(12)))
    assert tally.words(RateLimit(1, 60_000), 0).endswith(
        "at most 1 in 1m: A00, A01, A02, A03, A04, A05, A06, A07, A08, A09, and 2 more"
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_more_than_allowed_and_every_end_to_whom_it_is_owed(seed: int) -> None:
    luck = random.Random(seed)
    limit = RateLimit(luck.randint(1, 4), luck.choice([50_000, 200_000, 900_000]))
    names = [f"{alert}/n{node}" for alert in "ABC" for node in range(3)]
    firing: set[str] = set()
    lines = []
    at = 0
    for _ in range(60):
        at += luck.choice([1, 10, 40, 150])
        name = luck.choice(names)
        lines.append(f"{at} {'-' if name in firing else '+'}{name}")
        firing ^= {name}
    lines += [f"{at + 10} -{name}" for name in sorted(firing)]
    root = route(wait=0, interval=10, group_by=luck.choice([None, frozenset({"alertname"})]))
    log = NotificationLog()
    one = dispatcher(root, addressees={"ops": [Addressee("ops", limit=limit)]}, log=log)
    sent = list(simulate(one, events(*lines), START + 40_000_000))
    times = [each.time_ms for each in sent]
    assert all(
        late - early >= limit.per_ms
        for early, late in zip(times, times[limit.messages :], strict=False)
    )
    # Whoever is told of an alert hears that it fires, then that it does not, in turns.
    course: dict[str, list[bool]] = {}
    for each in sent:
        for alert in each.message.alerts:
            fires = alert.resolved_at_ms is None
            own = course.setdefault(str(alert.labels), [])
            if not own or own[-1] != fires:
                own.append(fires)
            else:
                assert fires  # told again with its group
    assert all(own[0] and not own[-1] for own in course.values())
    assert all(first != second for own in course.values() for first, second in pairwise(own))
    assert not one.limiter.budget("ops").waiting
    assert not log.owed()
