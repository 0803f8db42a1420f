"""Relabelling in a delivery over state.db: what is sent, also after the configuration changed."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from engine.alerts.fingerprint import fingerprint
from engine.alerts.relabelling import RelabelRule
from engine.labels import Labels
from notifiers.api.sources import AlertTable
from notifiers.routing.plan import everybody
from notifiers.silences.store import Silences

WITHOUT_NODE = RelabelRule("labeldrop", regex="node")


def sent(hook: Any) -> list[tuple[str, dict[str, str]]]:
    """(status, labels) of each alert."""
    return [
        (alert["status"], alert["labels"])
        for _, body in hook.received
        for alert in json.loads(body)["alerts"]
    ]


def configured(support: Any, hook: Any, *rules: RelabelRule, **labels: str) -> Any:
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    return config.model_copy(update={"alert_relabel_configs": rules, "external_labels": labels})


def test_external_labels_are_added_first_and_the_fingerprint_is_that_of_what_is_sent(
    hook: Any, make_agent: Any, support: Any
) -> None:
    zone = RelabelRule(source_labels=("region",), target_label="zone", replacement="$1-1")
    agent = make_agent(configured(support, hook, WITHOUT_NODE, zone, region="eu"))
    agent.fire(support.firing("Down"))
    agent.settle("delivered", 1)
    expected = {
        "alertname": "Down", "task_id": "torchrun:job42", "region": "eu", "zone": "eu-1"
    }  # fmt: skip
    (body,) = [json.loads(body) for _, body in hook.received]
    assert body["groupLabels"] == expected
    assert [(one["labels"], one["fingerprint"]) for one in body["alerts"]] == [
        (expected, fingerprint(expected))
    ]


def test_an_end_has_the_labels_of_its_beginning_whatever_the_configuration_says_by_then(
    hook: Any, make_agent: Any, support: Any
) -> None:
    before = make_agent(configured(support, hook, WITHOUT_NODE, region="eu"))
    alert = support.firing("Down")
    before.fire(alert)
    before.settle("delivered", 1)
    before.delivery.stop(support.PATIENCE)
    after = make_agent(configured(support, hook, RelabelRule("drop")))
    after.fire(support.resolved(alert), support.firing("Other"))
    after.settle("delivered", 2)
    labels = {"alertname": "Down", "task_id": "torchrun:job42", "region": "eu"}
    assert sent(hook) == [("firing", labels), ("resolved", labels)]
    after.delivery.stop(support.PATIENCE)
    connection = sqlite3.connect(after.path)
    assert connection.execute("SELECT * FROM notify_sent_as").fetchall() == []
    connection.close()


def test_a_message_that_waits_is_sent_with_the_labels_it_was_made_with(
    hook: Any, make_agent: Any, support: Any
) -> None:
    hook.always = support.status(503)
    before = make_agent(configured(support, hook, WITHOUT_NODE))
    before.fire(support.firing("Down"))
    hook.wait_for(1)
    before.delivery.stop(support.PATIENCE)
    hook.always = support.status(200)
    after = make_agent(configured(support, hook))
    after.settle("delivered", 1)
    assert {frozenset(labels) for _, labels in sent(hook)} == {frozenset({"alertname", "task_id"})}


def test_an_outbox_of_a_version_without_relabelling_is_sent_as_it_was(
    hook: Any, make_agent: Any, support: Any
) -> None:
    hook.always = support.status(503)
    before = make_agent(configured(support, hook, region="eu"))
    before.fire(support.firing("Down"))
    hook.wait_for(1)
    before.delivery.stop(support.PATIENCE)
    connection = sqlite3.connect(before.path, isolation_level=None)
    connection.execute("ALTER TABLE notify_message DROP COLUMN sent_as")
    connection.execute("DROP TABLE notify_sent_as")
    connection.close()
    hook.always = support.status(200)
    after = make_agent(configured(support, hook, WITHOUT_NODE, region="eu"))
    after.settle("delivered", 1)
    after.fire(support.resolved(support.firing("Down")))
    after.settle("delivered", 2)
    assert {labels["node"] for _, labels in sent(hook)} == {"n1"}
    assert sent(hook)[-1][0] == "resolved"


def test_the_api_shows_what_is_sent_once_and_not_what_is_dropped(
    tmp_path: Any, support: Any
) -> None:
    alerts = [
        support.firing("Down", node="n1"),
        support.firing("Down", node="n2"),
        support.firing("Noise"),
    ]

    def relabelled(labels: Labels) -> Labels | None:
        return None if labels.get("alertname") == "Noise" else labels.without("node")

    silences = Silences(str(tmp_path / "state.db"))
    table = AlertTable(lambda: alerts, everybody(["ops"]), silences, lambda: 0, relabelled)
    (shown,) = table.alerts()
    assert shown.alert.labels == Labels.of(alertname="Down", task_id="torchrun:job42")
    assert [len(group.alerts) for group in table.groups()] == [1]
    assert [table.suppression(one).dropped for one in alerts] == [False, False, True]
    silences.close()
