"""A state.db of a version whose outbox knew no groups: what it owes is not lost."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from engine.alerts.encoding import alert_to_json
from engine.alerts.fingerprint import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from engine.alerts.alert import Alert

OLD_TABLE = """
CREATE TABLE notify_outbox (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, receiver TEXT NOT NULL,
    integration TEXT NOT NULL, fingerprint TEXT NOT NULL, fired_at_ms INTEGER NOT NULL,
    status TEXT NOT NULL, alert TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'pending',
    reason TEXT NOT NULL DEFAULT '', detail TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0, created_at_ms INTEGER NOT NULL,
    next_attempt_ms INTEGER NOT NULL, finished_at_ms INTEGER
)
"""


def owe(connection: sqlite3.Connection, alert: Alert, state: str, now_ms: int) -> None:
    status = "resolved" if alert.resolved_at_ms else "firing"
    connection.execute(
        "INSERT INTO notify_outbox (id, receiver, integration, fingerprint, fired_at_ms, status,"
        " alert, state, created_at_ms, next_attempt_ms, finished_at_ms)"
        " VALUES (?, 'ops', 'ops/webhook/0', ?, ?, ?, ?, ?, ?, 0, ?)",
        (
            f"{alert.labels.get('alertname')} {status}", fingerprint(alert.labels),
            alert.fired_at_ms, status, json.dumps(alert_to_json(alert)), state, now_ms,
            None if state == "pending" else now_ms,
        ),
    )  # fmt: skip


def test_what_waited_is_sent_and_what_was_told_ends_and_is_not_told_again(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path
) -> None:
    told, waiting, over = map(support.firing, ("Told", "Waiting", "Over"))
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute(OLD_TABLE)
        now_ms = support.unix_ms()
        owe(connection, told, "delivered", now_ms)
        owe(connection, over, "delivered", now_ms)
        owe(connection, support.resolved(over), "delivered", now_ms)
        owe(connection, support.firing("Dead"), "failed", now_ms)
        owe(connection, waiting, "pending", now_ms)
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    agent.settle("delivered", 1)
    agent.fire(support.resolved(told), support.resolved(waiting))
    agent.settle("delivered", 3)
    heard = [
        (one["labels"]["alertname"], one["status"])
        for _, body in hook.received
        for one in json.loads(body)["alerts"]
    ]
    assert heard[0] == ("Waiting", "firing")
    assert sorted(heard[1:]) == [("Told", "resolved"), ("Waiting", "resolved")]
    assert [entry.id for entry in agent.entries("failed")] == ["Dead firing"]
    with sqlite3.connect(agent.path) as connection:
        known = connection.execute("SELECT count(*) FROM sqlite_master WHERE name='notify_outbox'")
        assert known.fetchone() == (0,)
