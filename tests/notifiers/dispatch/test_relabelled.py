"""Alerts that relabelling makes one, drops, or sends elsewhere."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.fingerprint import fingerprint
from engine.alerts.matchers import parse_matchers
from engine.alerts.relabelling import RelabelRule
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.message import Addressee
from notifiers.dispatch.opening import open_dispatcher
from notifiers.inhibition import InhibitRule, Source
from notifiers.origin import Origin
from notifiers.routing.plan import Plan
from notifiers.simulation import simulate
from tests.notifiers.dispatch.timeline import START, Silences, alert, events, labels_of, route

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.dispatcher import Dispatcher
    from notifiers.simulation import Sent

NAME = "alertname"
WITHOUT_NODE = RelabelRule("labeldrop", regex="node")


def opened(
    *rules: RelabelRule, log: NotificationLog | None = None, root: Any = None, **settings: Any
) -> Dispatcher:
    silences = settings.pop("silences", None)
    plan = Plan(root or route(), **({"inhibit_rules": ()} | settings))
    to = {name: [Addressee(name)] for name in ("ops", "web")}
    origin = Origin(relabelling=rules)
    return open_dispatcher(plan, to, origin, log or NotificationLog(), silences=silences)


def shown(sent: Iterable[Sent]) -> list[str]:
    """`30 ops: +A{rank="0"}`: labels as they are sent."""
    return [
        f"{(one.time_ms - START) / 1000:g} {one.message.integration}: "
        + " ".join(
            ("+" if each.resolved_at_ms is None else "-") + spelled(one, each)
            for each in one.message.alerts
        )
        for one in sent
    ]


def spelled(one: Sent, alert: Alert) -> str:
    sent = one.message.labels_of(alert)
    return f"{sent.get('alertname')}{sent.without('alertname')}"


def told(dispatcher: Dispatcher, *lines: str, until: float = 3000) -> list[str]:
    return shown(simulate(dispatcher, events(*lines), START + round(until * 1000)))


def test_alerts_that_are_sent_with_the_same_labels_are_one_that_fires_while_any_does() -> None:
    assert told(
        opened(WITHOUT_NODE), "0 +A/n1", "100 +A/n2", "400 -A/n1", "1000 +A/n3", "1300 -A/n2",
        "1600 -A/n3",
    ) == ["30 ops: +A{}", "1830 ops: -A{}"]  # fmt: skip


def test_one_that_comes_back_before_its_end_is_told_has_not_ended() -> None:
    assert told(opened(WITHOUT_NODE), "0 +A/n1", "100 -A/n1", "200 +A/n2", until=1000) == [
        "30 ops: +A{}"
    ]
    silences = Silences("A", 100, 1000)
    muted = opened(WITHOUT_NODE, silences=silences)
    assert told(muted, "0 +A/n1", "200 -A/n1", "700 +A/n2", "1200 -A/n2") == [
        "30 ops: +A{}",
        "1230 ops: -A{}",
    ]


def test_what_relabelling_drops_nobody_is_told_of() -> None:
    drop = RelabelRule("drop", source_labels=("node",), regex="n2")
    assert told(opened(drop), "0 +A/n1", "0 +A/n2", "100 -A/n2", "200 -A/n1", until=400) == [
        '30 ops: +A{node="n1"}',
        '330 ops: -A{node="n1"}',
    ]


def test_routes_groups_silences_and_inhibition_see_the_labels_that_are_sent() -> None:
    rack = RelabelRule(source_labels=("node",), target_label="rack", replacement="r-$1")
    web = route("web", matchers='rack="r-n2"', group_by=frozenset({"rack"}), key="{}/web")
    inhibit = InhibitRule(
        (Source(parse_matchers("alertname=Down"), ("rack",)),), parse_matchers("alertname=B")
    )
    dispatcher = opened(rack, root=route(routes=(web,)), inhibit_rules=(inhibit,))
    assert told(dispatcher, "0 +Down/n2", "0 +B/n2", "0 +B/n1", until=200) == [
        '30 web: +Down{node="n2", rack="r-n2"}',
        '30 ops: +B{node="n1", rack="r-n1"}',
    ]

    class Racks(Silences):
        def silencing(self, labels: Labels, now_ms: int) -> tuple[str, ...]:
            return ("s1",) if labels.get("rack") == "r-n1" else ()

    assert told(opened(rack, silences=Racks("", 0, 0)), "0 +A/n1", until=200) == []


def again(
    log: NotificationLog, rules: Sequence[RelabelRule], *texts: str, seconds: float = 1000
) -> list[str]:
    """A next process over the same log: what it has of alerts comes at once, as from state.db."""
    dispatcher = opened(*rules, log=log)
    alerts = [
        alert(text[1:], seconds if text[0] == "-" else 0, over=text[0] == "-", fired=0)
        for text in texts
    ]
    at_ms = START + round(seconds * 1000)
    return shown(simulate(dispatcher, [(at_ms, alerts)], at_ms + 1_000_000))


RACK = RelabelRule(target_label="rack", replacement="r7")
DROP = RelabelRule("drop")


@pytest.mark.parametrize("before", [(), (RACK,), (WITHOUT_NODE,)])
@pytest.mark.parametrize("after", [(), (RACK,), (WITHOUT_NODE,), (DROP,)])
def test_a_changed_relabelling_retells_nothing_and_the_end_has_the_labels_of_the_beginning(
    before: tuple[RelabelRule, ...], after: tuple[RelabelRule, ...]
) -> None:
    log = NotificationLog()
    (beginning,) = told(opened(*before, log=log), "0 +A/n1", until=900)
    assert again(log, after, "+A/n1") == []
    (end,) = again(log, after, "-A/n1", seconds=2500)
    assert end.partition(": ")[2] == beginning.partition(": ")[2].replace("+A", "-A")


def test_what_fires_after_the_change_has_the_new_labels() -> None:
    log = NotificationLog()
    told(opened(RACK, log=log), "0 +A/n1", until=900)
    assert again(log, (WITHOUT_NODE,), "+A/n1", "+B/n1", seconds=1000) == ["1000 ops: +B{}"]


def test_two_that_were_told_and_become_one_end_as_they_began() -> None:
    log = NotificationLog()
    assert told(opened(log=log), "0 +A/n1", "0 +A/n2", until=900) == [
        '30 ops: +A{node="n1"} +A{node="n2"}'
    ]
    assert again(log, (WITHOUT_NODE,), "+A/n1", "-A/n2") == [
        '1000 ops: +A{node="n1"} -A{node="n2"}'
    ]


def test_one_that_stood_for_two_ends_when_both_have_after_a_restart() -> None:
    log = NotificationLog()
    told(opened(WITHOUT_NODE, log=log), "0 +A/n1", "100 +A/n2", until=900)
    assert again(log, (WITHOUT_NODE,), "+A/n2", "-A/n1") == []
    assert again(log, (WITHOUT_NODE,), "-A/n2", seconds=3000) == ["3000 ops: -A{}"]


def test_a_log_knows_labels_only_of_what_is_not_settled() -> None:
    log = NotificationLog()
    dispatcher = opened(WITHOUT_NODE, log=log)
    assert told(dispatcher, "0 +A/n1", until=100) == ["30 ops: +A{}"]
    assert log.sent_as == {fingerprint(labels_of("A/n1")): labels_of("A/n1").without("node")}
    over = [(START + 400_000, [alert("A/n1", 400, over=True, fired=0)])]
    assert shown(simulate(dispatcher, over, START + 1_000_000)) == ["630 ops: -A{}"]
    assert log.sent_as == {}


def drawn(draw: random.Random) -> list[str]:
    """Alerts A and B of three nodes fire and end at random."""
    firing: set[str] = set()
    lines, at = [], 0
    for _ in range(60):
        at += draw.randrange(1, 250)
        name = f"{draw.choice('AB')}/n{draw.randrange(3)}"
        lines.append(f"{at} {'-' if name in firing else '+'}{name}")
        firing ^= {name}
    return lines


def as_one(lines: Iterable[str]) -> list[str]:
    """What happens to alerts without a node: each fires while one of its nodes' alerts does."""
    firing: dict[str, set[str]] = {"A": set(), "B": set()}
    found = []
    for line in lines:
        at, _, what = line.partition(" ")
        sign, name, node = what[0], what[1], what[3:]
        before = bool(firing[name])
        firing[name] ^= {node}
        if bool(firing[name]) != before:
            found.append(f"{at} {sign}{name}/")
    return found


@pytest.mark.parametrize("seed", range(40))
def test_alerts_that_become_one_are_told_as_if_there_had_been_only_one(seed: int) -> None:
    lines = drawn(random.Random(seed))
    root = route(wait=20, interval=60, repeat=900)
    together = told(opened(WITHOUT_NODE, root=root), *lines, until=20_000)
    assert together == told(opened(root=root), *as_one(lines), until=20_000)
    assert len(together) > 5


@pytest.mark.parametrize("seed", range(20))
def test_each_beginning_is_told_once_and_each_end_once_when_a_new_process_goes_on_each_time(
    seed: int,
) -> None:
    lines = drawn(random.Random(seed))
    log = NotificationLog()
    newest: dict[str, Alert] = {}
    heard: list[str] = []
    for at_ms, (one,) in events(*lines):
        # From state.db: what fires, and ends that are still owed.
        kept = [own for own in newest.values() if is_firing(own) or log.owing(name_of(own))]
        newest[name_of(one)] = one
        dispatcher = opened(WITHOUT_NODE, root=route(repeat=90_000), log=log)
        for line in shown(simulate(dispatcher, [(at_ms, [*kept, one])], at_ms + 300_000)):
            heard += line.partition(": ")[2].split()
    for name in "AB":
        told_of = [text[0] for text in heard if text[1] == name]
        assert told_of == ["+", "-"] * (len(told_of) // 2) + ["+"] * (len(told_of) % 2)
        fires = any(is_firing(own) for own in newest.values() if own.labels.get(NAME) == name)
        assert (len(told_of) % 2 == 1) == fires


def name_of(one: Alert) -> str:
    return fingerprint(one.labels)
