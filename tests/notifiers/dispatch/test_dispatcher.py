from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from engine.alerts.alert import Alert, AlertState
from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch.dispatcher import Dispatcher
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.message import Addressee
from notifiers.dispatch.muting import Muting
from notifiers.inhibition import TIER_RULE, Inhibitor
from notifiers.routing.intervals import Intervals
from notifiers.simulation import simulate
from tests.notifiers.dispatch.timeline import (
    START,
    Nights,
    Silences,
    alert,
    dispatcher,
    events,
    inhibits,
    labels_of,
    route,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.labels import Labels


def test_a_group_waits_then_speaks_at_intervals_and_only_of_news() -> None:
    assert told(
        route(), "0 +A/n1", "10 +A/n2", "40 +A/n3", "400 -A/n1", "1000 -A/n2", "1000 -A/n3"
    ) == [
        "30 ops: +A/n1 +A/n2 (first notification)",
        "330 ops: +A/n1 +A/n2 +A/n3 (new alerts added)",
        "630 ops: +A/n2 +A/n3 -A/n1 (some alerts resolved)",
        "1230 ops: -A/n2 -A/n3 (all alerts resolved)",
    ]


def test_a_repeat_comes_on_a_tick_after_the_repeat_interval() -> None:
    # On the tick at 930 exactly 900 s have passed, which is not more.
    assert told(route(repeat=900), "0 +A/n1", until=2500) == [
        "30 ops: +A/n1 (first notification)",
        "1230 ops: +A/n1 (repeat interval elapsed)",
        "2430 ops: +A/n1 (repeat interval elapsed)",
    ]


def test_an_alert_that_fires_long_since_does_not_wait_for_its_new_group() -> None:
    old = [(START + 100_000, [alert("A/n1", 100, fired=0)])]
    (sent,) = simulate(dispatcher(route()), old, START + 200_000)
    assert sent.time_ms == START + 100_000


def test_what_fires_and_resolves_between_two_flushes_is_never_told() -> None:
    assert told(route(), "0 +A/n1", "20 -A/n1") == []
    assert told(route(), "0 +A/n1", "100 +A/n2", "200 -A/n2") == [
        "30 ops: +A/n1 (first notification)"
    ]


def test_an_alert_that_comes_back_between_two_flushes_is_no_news() -> None:
    assert told(route(), "0 +A/n1", "100 -A/n1", "200 +A/n1") == [
        "30 ops: +A/n1 (first notification)"
    ]


def test_a_group_that_has_been_empty_waits_again() -> None:
    assert told(route(), "0 +A/n1", "100 -A/n1", "1000 +A/n1") == [
        "30 ops: +A/n1 (first notification)",
        "330 ops: -A/n1 (all alerts resolved)",
        "1030 ops: +A/n1 (new alerts added)",
    ]


def test_each_route_has_groups_and_times_of_its_own() -> None:
    web = route("web", matchers='alertname="A"', continue_=True, wait=5, key='{}/{alertname="A"}')
    db = route("db", matchers='node="n1"', wait=60, group_by=None, key='{}/{node="n1"}')
    assert told(route(routes=(web, db)), "0 +A/n1", "1 +A/n2", "2 +B/n3", until=100) == [
        "5 web: +A/n1 +A/n2 (first notification)",
        "32 ops: +B/n3 (first notification)",
        "60 db: +A/n1 (first notification)",
    ]


def test_a_source_inhibits_what_agrees_with_it_and_the_end_is_told_when_it_is_over() -> None:
    rule = inhibits('alertname="Down"', 'alertname="Slow"', "node")
    assert told(
        route(),
        "0 +Slow/n1", "0 +Slow/n2", "100 +Down/n1", "200 -Slow/n1", "1000 -Down/n1",
        rules=[rule],
    ) == [
        "30 ops: +Slow/n1 +Slow/n2 (first notification)",
        "130 ops: +Down/n1 (first notification)",
        "1030 ops: -Down/n1 (all alerts resolved)",
        # Slow/n1 ended while it was inhibited; who heard of it is told at the first tick after.
        "1230 ops: +Slow/n2 -Slow/n1 (some alerts resolved)",
    ]  # fmt: skip


def test_an_alert_on_both_sides_is_not_inhibited_by_another_one_on_both_sides() -> None:
    rule = inhibits('alertname=~"A|B"', 'alertname=~"A|C"')
    # Of A and A neither silences the other, B silences A and C.
    assert told(route(), "0 +A/n1", "0 +A/n2", rules=[rule]) == [
        "30 ops: +A/n1 +A/n2 (first notification)"
    ]
    assert told(route(), "0 +A/n1", "0 +B/n2", "0 +C/n3", rules=[rule]) == [
        "30 ops: +B/n2 (first notification)"
    ]


def test_labels_that_both_sides_lack_count_as_equal() -> None:
    rule = inhibits('alertname="Down"', 'alertname="Slow"', "zone")
    assert told(route(), "0 +Down/n1", "0 +Slow/n2", rules=[rule]) == [
        "30 ops: +Down/n1 (first notification)"
    ]


def test_tier_2_keeps_tier_1_of_its_task_quiet_and_hands_back() -> None:
    lines = (
        "0 +Retransmits/n1 tier=1 task_id=job", "0 +Waits/n1 tier=2 task_id=job",
        "0 +Retransmits/n2 tier=1 task_id=other", "0 +Retransmits/n3 tier=1",
        "500 -Waits/n1 tier=2 task_id=job",
    )  # fmt: skip
    assert told(route(group_by=None), *lines, until=700, rules=[TIER_RULE]) == [
        "30 ops: +Retransmits/n2 (first notification)",
        "30 ops: +Retransmits/n3 (first notification)",
        "30 ops: +Waits/n1 (first notification)",
        "630 ops: +Retransmits/n1 (first notification)",
        "630 ops: -Waits/n1 (all alerts resolved)",
    ]


@pytest.mark.parametrize(
    ("keeps_owed", "end"),
    [(True, ["1530 ops: -A/n1 (all alerts resolved)"]), (False, [])],
)
def test_a_silence_delays_a_resolution_and_alertmanagers_drops_it(
    *, keeps_owed: bool, end: list[str]
) -> None:
    silence = Silences("A", 100, 1400)
    assert told(route(), "0 +A/n1", "200 -A/n1", silences=silence, keeps_owed=keeps_owed) == [
        "30 ops: +A/n1 (first notification)", *end,
    ]  # fmt: skip


def test_what_was_silenced_when_it_fired_is_told_when_the_silence_ends() -> None:
    assert told(route(), "0 +A/n1", "0 +B/n1", silences=Silences("A", 0, 400)) == [
        "30 ops: +B/n1 (first notification)",
        "630 ops: +A/n1 (first notification)",
    ]
    # And its end is owed to nobody when it never was told.
    assert told(route(), "0 +A/n1", "100 -A/n1", silences=Silences("A", 0, 400)) == []


def test_a_repeat_in_which_an_alert_is_muted_does_not_forget_that_its_end_is_owed() -> None:
    lines = ("0 +A/n1", "0 +B/n1", "1000 -A/n1", "1400 -B/n1")
    grouped = route(group_by=frozenset({"node"}), repeat=500)
    assert told(grouped, *lines, silences=Silences("A", 100, 1300)) == [
        "30 ops: +A/n1 +B/n1 (first notification)",
        "630 ops: +B/n1 (repeat interval elapsed)",
        "1230 ops: +B/n1 (repeat interval elapsed)",
        "1530 ops: -A/n1 -B/n1 (all alerts resolved)",
    ]


@pytest.mark.parametrize("how", ["mute", "active"])
def test_a_routes_times_mute_it_and_not_the_others(how: str) -> None:
    # Muted from 200 to 1000; or active before 200 and after 1000.
    quiet = route("web", matchers='alertname="A"', key="{}/a", **{how: ("nights",)})
    times = Nights(200, 1000) if how == "mute" else Outside(200, 1000)
    lines = ("0 +A/n1", "0 +B/n1", "300 -A/n1", "300 -B/n1")
    assert told(route(routes=(quiet,)), *lines, times=times) == [
        "30 web: +A/n1 (first notification)",
        "30 ops: +B/n1 (first notification)",
        "330 ops: -B/n1 (all alerts resolved)",
        "1230 web: -A/n1 (all alerts resolved)",
    ]


class Outside(Nights):
    """The interval holds outside of two times."""

    def contains(self, names: Iterable[str], time_ms: int) -> tuple[str, ...]:
        within = self.begin <= (time_ms - START) / 1000 < self.end
        return tuple(name for name in names if not within)


def test_one_integration_asks_for_no_resolutions_and_the_other_one_gets_them() -> None:
    to = {"ops": [Addressee("ops/0", send_resolved=False), Addressee("ops/1")]}
    assert told(route(), "0 +A/n1", "100 -A/n1", addressees=to) == [
        "30 ops/0: +A/n1 (first notification)",
        "30 ops/1: +A/n1 (first notification)",
        "330 ops/1: -A/n1 (all alerts resolved)",
    ]


def test_a_route_that_leads_elsewhere_now_owes_the_end_to_who_was_told() -> None:
    log = NotificationLog()
    before = list(simulate(dispatcher(route("web"), log=log), events("0 +A/n1"), START + 60_000))
    later = dispatcher(route("ops"), log=log)
    over = [(START + 100_000, [alert("A/n1", 100, over=True, fired=0)])]
    after = list(simulate(later, over, START + 200_000))
    assert [each.message.integration for each in (*before, *after)] == ["web", "web"]
    assert after[0].message.group_labels == {"alertname": "A"}
    assert log.owing(fingerprint(labels_of("A/n1"))) == []


def test_who_hears_by_another_route_now_was_told_and_hears_the_end_once() -> None:
    log = NotificationLog()
    one = [(START, [alert("A/n1", 0)])]
    for _ in simulate(dispatcher(route(group_by=frozenset()), log=log), one, START + 60_000):
        pass
    later = dispatcher(route(), log=log)
    again = [*one, (START + 500_000, [alert("A/n1", 500, over=True, fired=0)])]
    (sent,) = simulate(later, again, START + 5_000_000)
    assert sent.message.reason == "all alerts resolved"
    assert sent.message.group_labels == {"alertname": "A"}


def test_timers_of_an_earlier_process_go_on_and_those_of_a_clock_set_back_do_not() -> None:
    log = NotificationLog()
    one = dispatcher(route(), log=log)
    for _ in simulate(one, events("0 +A/n1"), START + 60_000):
        pass
    timers = {group.id: group.timer for group in one.groups()}
    again = [(START + 100_000, [alert("A/n1", 0), alert("A/n2", 100)])]
    (sent,) = simulate(dispatcher(route(), log=log, timers=timers), again, START + 400_000)
    assert sent.time_ms == START + 330_000
    back = [(START - 9_000_000, [alert("A/n3", -9000)])]
    (early,) = simulate(dispatcher(route(), log=log, timers=timers), back, START - 8_000_000)
    assert early.time_ms == START - 9_000_000 + 30_000


def test_a_clock_that_is_set_back_silences_no_group() -> None:
    log = NotificationLog()
    muting = Muting(Inhibitor(()), Intervals(()))
    made = Dispatcher(route(), {"ops": [Addressee("ops/fake/0")]}, muting, log)
    made.take([alert("A/n1", 0)], START)
    assert len(made.flush(START + 30_000).messages) == 1
    day_ms = 86_400_000
    made.flush(START - day_ms)
    made.take([alert("A/n2", -86_000)], START - day_ms)
    (message,) = made.flush(START - day_ms + 300_000).messages
    assert len(message.alerts) == 2
    assert made.flush(START - day_ms + 3_000_000).messages == ()


def test_ten_thousand_alerts_in_an_hour_leave_nothing_behind() -> None:
    """Each fires for a random while; its end comes after its beginning."""
    draw, log = random.Random(7), NotificationLog()
    plays: list[tuple[int, list[Alert]]] = []
    for number in range(10_000):
        began = draw.uniform(0, 3000)
        over = draw.uniform(began + 1, 3600)
        plays.append((START + round(began * 1000), [alert(f"A{number}/n{number % 7}", began)]))
        ended = alert(f"A{number}/n{number % 7}", over, over=True, fired=began)
        plays.append((START + round(over * 1000), [ended]))
    plays.sort(key=lambda play: play[0])
    tree = route(group_by=frozenset({"node"}), wait=0, interval=10)
    muting = Muting(Inhibitor([TIER_RULE]), Intervals(()))
    made = Dispatcher(tree, {"ops": [Addressee("ops/fake/0")]}, muting, log)
    fires: set[Labels] = set()
    heard = 0
    for sent in simulate(made, plays, START + 3_700_000):
        for one in sent.message.alerts:
            assert (one.labels in fires) or one.state is AlertState.FIRING
            (fires.discard if one.state is AlertState.RESOLVED else fires.add)(one.labels)
            heard += one.state is AlertState.RESOLVED
    assert not fires
    assert heard > 9_000
    assert list(made.groups()) == []
    made.flush(START + 86_400_000)
    assert made.next_ms() is None
    assert not made._held
    assert not made._groups
    assert not log._entries
    assert not log._owing
    assert not log._integrations
