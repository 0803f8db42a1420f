"""A task that suffers: its tier 2 alert says what tier 1 saw, keeps it back, and gives it back."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import AlertState, Inhibited
from engine.alerts.encoding import alert_from_json, alert_to_json
from engine.cli.alerts import describe
from engine.http.rule_status import encode_alert
from engine.labels import Labels
from notifiers.delivery import open_delivery
from notifiers.inhibition import MOST_FACING, TIER_RULE, Inhibitor, InhibitRule, Source
from notifiers.messages.composition import compose
from notifiers.notification import Notification
from notifiers.simulation import simulate
from rules.slotted import replace
from tests.notifiers.dispatch.timeline import START, alert, dispatcher, events, inhibits, route

if TYPE_CHECKING:
    from pathlib import Path

    from engine.alerts.alert import Alert, EvidenceEntry

LOSS, STALL = "Loss/n1 tier=1 task_id=t", "Stalled/n1 tier=2 task_id=t"


def facing(*lines: str, **settings: Any) -> list[str]:
    """`30 Stalled firing: Loss/n1`, for each alert of each message that faces another."""
    one = dispatcher(route(), rules=settings.get("rules", [TIER_RULE]))
    return [
        f"{(sent.time_ms - START) / 1000:g} {each.labels.get('alertname')} {each.state.value}: "
        + " ".join(
            f"{other.labels.get('alertname')}/{other.labels.get('node')}"
            for other in each.inhibited
        )
        for sent in simulate(one, events(*lines), START + 3_000_000)
        for each in sent.message.alerts
        if each.inhibited
    ]


def test_a_tier_2_alert_names_what_it_keeps_back_and_at_its_end_what_it_gives_back() -> None:
    other = "Loss/n9 tier=1 task_id=another"
    assert facing(f"0 +{LOSS}", f"0 +{other}", f"10 +{STALL}", f"700 -{STALL}") == [
        "40 Stalled firing: Loss/n1",
        "940 Stalled resolved: Loss/n1",
    ]


def test_what_has_ended_or_is_kept_back_by_another_is_not_given_back() -> None:
    assert facing(f"0 +{LOSS}", f"10 +{STALL}", f"500 -{LOSS}", f"700 -{STALL}") == [
        "40 Stalled firing: Loss/n1"
    ]
    slow = "Slow/n1 tier=2 task_id=t"
    both = facing(f"0 +{LOSS}", f"10 +{STALL}", f"10 +{slow}", f"700 -{STALL}")
    assert sorted(both) == ["40 Slow firing: Loss/n1", "40 Stalled firing: Loss/n1"]


def test_without_the_rule_nothing_is_kept_back() -> None:
    assert facing(f"0 +{LOSS}", f"10 +{STALL}", rules=()) == []
    assert facing("0 +A/n1", "0 +B/n1", "0 +B/n2", rules=[inhibits("alertname=A", "alertname=B")])


def test_the_longest_come_first_and_not_all_of_thousands_are_named() -> None:
    inhibitor = Inhibitor([TIER_RULE])
    for rank in range(1000):
        labels = Labels.of(alertname="Loss", tier="1", task_id="t", rank=str(rank))
        inhibitor.take(labels, 1000 - rank, fires=True)
    stall = Labels.of(alertname="Stalled", tier="2", task_id="t")
    inhibitor.take(stall, 5, fires=True)
    found = inhibitor.facing(stall)
    assert len(found) == MOST_FACING
    assert [one.since_ms for one in found] == sorted(one.since_ms for one in found)
    (target,) = [one for one in found if one is found[0]]
    assert inhibitor.inhibitors(target.labels) == (stall,)


def test_of_several_sources_all_have_to_fire() -> None:
    first, second = Labels.of(alertname="A"), Labels.of(alertname="B")
    rule = InhibitRule(
        tuple(Source(inhibits(f"alertname={name}", "x=y").sources[0].matchers) for name in "AB"),
        inhibits("x=y", "alertname=C").target,
    )
    inhibitor = Inhibitor([rule])
    inhibitor.take(Labels.of(alertname="C"), fires=True)
    inhibitor.take(first, fires=True)
    assert inhibitor.facing(first) == ()
    inhibitor.take(second, fires=True)
    assert [one.labels for one in inhibitor.facing(first)] == [Labels.of(alertname="C")]


def told(**changes: Any) -> Alert:
    evidence: tuple[EvidenceEntry, ...] = (
        {"rank": "3", "src": "10.0.0.1", "sport": 1, "dst": "10.0.0.2", "dport": 2,
         "retransmits": 12, "first": 1_700_000_000.5, "last": 1_700_000_090.0},
        {"rank": "4", "src": "10.0.0.1", "sport": 3, "dst": "10.0.0.2", "dport": 2,
         "retransmits": 3, "first": 1_700_000_050.0, "last": 1_700_000_060.0},
    )  # fmt: skip
    inhibited = tuple(
        Inhibited(Labels.of(alertname="Loss", rank=rank, tier="1"), START + 1000 * int(rank))
        for rank in ("10", "3")
    )
    return replace(alert(STALL, 0), evidence=evidence, inhibited=inhibited, **changes)


def facts(one: Alert) -> dict[str, str]:
    status: Any = "resolved" if one.state is AlertState.RESOLVED else "firing"
    (part,) = compose(Notification("id", "ops", status, {}, (one,))).parts
    return dict(part.facts)


def test_a_message_says_which_connections_which_ranks_since_when_and_what_is_kept_back() -> None:
    said = facts(told())
    assert said["Ranks"] == "3, 4"
    assert said["Tier 1"] == (
        "15 retransmits on 2 connections, most 10.0.0.1:1 → 10.0.0.2:2; "
        "since 2023-11-14T22:13:20.5Z"
    )
    assert said["Keeps back"] == "Loss rank 3, 10 since 2023-11-14T22:13:23Z"
    over = facts(told(state=AlertState.RESOLVED, resolved_at_ms=START + 9000))
    assert over["Gives back"] == "Loss rank 3, 10 since 2023-11-14T22:13:23Z"


def test_an_alert_in_the_outbox_keeps_what_it_says() -> None:
    one = told()
    assert alert_from_json(json.loads(json.dumps(alert_to_json(one)))) == one
    row = alert_to_json(one)
    del row["inhibited"]  # as an earlier version wrote it
    assert alert_from_json(row) == replace(one, inhibited=())


def firing(support: Any, name: str, tier: str) -> Alert:
    found: Alert = support.firing(name, tier=tier)
    return found


@pytest.mark.parametrize("restarts", [False, True])
def test_live_it_is_what_a_dry_run_says(
    hook: Any, make_agent: Any, support: Any, restarts: bool
) -> None:
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    loss, stall = firing(support, "Loss", "1"), firing(support, "Stalled", "2")
    agent = make_agent(config)
    agent.fire(loss, stall)
    agent.settle("delivered", 1)
    if restarts:
        agent.delivery.stop(support.PATIENCE)
        agent = make_agent(config)
    agent.fire(support.resolved(stall))
    agent.settle("delivered", 3)
    live = [
        (one["labels"]["alertname"], one["status"], one["annotations"].get("inhibited"))
        for _, body in hook.received
        for one in json.loads(body)["alerts"]
    ]
    simulated = dispatcher(route(group_by=None, wait=0, interval=1), rules=[TIER_RULE])
    played = [(START, [loss, stall]), (START + 60_000, [support.resolved(stall)])]
    dry = [
        (each.labels.get("alertname"), each.state.value, bool(each.inhibited))
        for sent in simulate(simulated, played, START + 120_000)
        for each in sent.message.alerts
    ]
    assert sorted((name, status, text is not None) for name, status, text in live) == sorted(dry)
    shown = json.loads(next(text for _, _, text in live if text))
    assert shown == [{"labels": loss.labels.to_dict(), "startsAt": "2023-11-14T22:14:20Z"}]
    # Once it is given back, the receiver hears of it.
    assert ("Loss", "firing", None) in live


def test_the_delivery_knows_both_sides_now(tmp_path: Path, hook: Any, support: Any) -> None:
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    delivery = open_delivery(config, str(tmp_path / "state.db"))
    loss, stall = firing(support, "Loss", "1"), firing(support, "Stalled", "2")
    connection = sqlite3.connect(tmp_path / "state.db")
    with connection:
        delivery.enqueue(connection, [loss, stall])
    connection.close()
    delivery.start()
    hook.wait_for(1)
    assert [one.labels for one in delivery.suppression(stall).inhibits] == [loss.labels]
    assert delivery.suppression(loss).inhibitors == (stall.labels,)
    delivery.stop(support.PATIENCE)


def test_the_command_names_both_sides() -> None:
    stall, loss = alert(STALL, 0), alert(LOSS, 0)
    names = [loss.labels.to_dict()]
    shown = "\n".join(describe({**encode_alert(stall), "inhibits": names * 7}))
    assert shown.count("keeps back Loss  node=n1, task_id=t, tier=1") == 5
    assert shown.endswith("keeps back 2 more")
    by = {"inhibitedBy": ["0" * 16], "inhibitors": [stall.labels.to_dict()]}
    shown = "\n".join(describe({**encode_alert(loss), **by}))
    assert shown.endswith("inhibited by Stalled node=n1, task_id=t, tier=2")
