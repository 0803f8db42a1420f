"""What workers do between messages, over real HTTP and a real state.db."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

from engine.alerts.relabelling import RelabelRule
from engine.timestamps import format_rfc3339


def test_an_alertmanager_is_told_again_of_what_fires_and_of_its_end(
    hook: Any, make_agent: Any, support: Any
) -> None:
    settings = {"url": hook.url.removesuffix("/hook"), "resend": "50ms"}
    agent = make_agent(support.configured(am=[("alertmanager", settings)]))
    alert = support.firing()
    agent.fire(alert)
    hook.wait_for(3)
    over = replace(support.resolved(alert), resolved_at_ms=support.unix_ms())
    agent.fire(over)
    agent.settle("delivered", 2)
    hook.wait_for(len(hook.received) + 2)
    told = [json.loads(body)[0] for _, body in hook.received]
    # A firing alert ends after its next words, a little later each time; then where it ended.
    ends = [one["endsAt"] for one in told]
    assert ends[0] < ends[1]
    assert ends[-1] == ends[-2] == format_rfc3339(over.resolved_at_ms)
    assert {one["startsAt"] for one in told} == {"2023-11-14T22:14:20Z"}


def test_what_an_earlier_process_told_is_told_again_with_external_labels(
    hook: Any, make_agent: Any, support: Any
) -> None:
    settings = {"url": hook.url.removesuffix("/hook"), "resend": "1h"}
    config = support.configured(am=[("alertmanager", settings)])
    config = config.model_copy(update={"external_labels": {"region": "eu"}})
    first = make_agent(config)
    first.fire(support.firing())
    first.settle("delivered", 1)
    first.delivery.stop(support.PATIENCE)
    make_agent(config)
    received = hook.wait_for(2)
    assert [json.loads(body)[0]["labels"]["region"] for _, body in received] == ["eu", "eu"]


def test_an_alertmanager_is_told_again_with_the_labels_of_the_first_word_when_relabelling_changed(
    hook: Any, make_agent: Any, support: Any
) -> None:
    settings = {"url": hook.url.removesuffix("/hook"), "resend": "1h"}
    config = support.configured(am=[("alertmanager", settings)])

    def relabelled(regex: str) -> Any:
        rules = (RelabelRule("labeldrop", regex=regex),)
        return make_agent(config.model_copy(update={"alert_relabel_configs": rules}))

    first = relabelled("node")
    first.fire(support.firing(node="n1"), support.firing(node="n2"))
    first.settle("delivered", 1)
    # The one that was told of ends; the other one takes its place, and nobody hears of an end.
    first.fire(support.resolved(support.firing(node="n1")))
    with closing(sqlite3.connect(first.path)) as connection:
        while connection.execute("SELECT count(*) FROM notify_alert").fetchone() != (1,):
            pass
    first.delivery.stop(support.PATIENCE)
    relabelled("task_id")
    (before, after) = (json.loads(body)[0] for _, body in hook.wait_for(2)[:2])
    assert before["labels"] == after["labels"]
    assert "node" not in after["labels"]
    assert after["endsAt"] > before["endsAt"]


def test_a_monitor_has_signs_of_life_while_rules_are_evaluated(
    hook: Any, make_agent: Any, support: Any
) -> None:
    settings = {"url": hook.url, "interval": "50ms"}
    config = support.configured(watchdog=[("heartbeat", settings)])
    agent = make_agent(config, start=False)
    now_ms = support.unix_ms()
    with sqlite3.connect(agent.path) as connection:
        connection.execute("CREATE TABLE rule_group (file, name, last_evaluation_ms INTEGER)")
        connection.execute("INSERT INTO rule_group VALUES ('f', 'g', ?)", (now_ms,))
    agent.delivery.start()
    hook.wait_for(2)
    agent.fire(support.firing())
    with sqlite3.connect(agent.path) as connection:
        connection.execute("UPDATE rule_group SET last_evaluation_ms = ?", (now_ms - 3_600_000,))
    # It is told of no alert, and hears nothing once evaluation stands still.
    assert agent.rows("pending") == agent.rows("delivered") == []
    assert {len(json.loads(body)) for _, body in hook.received} == {3}
