"""What the dispatcher keeps in state.db: alerts, timers of groups, and the notification log."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from engine.alerts.encoding import alert_from_json, alert_to_json
from engine.alerts.fingerprint import fingerprint
from engine.labels import Labels
from notifiers.dispatch import budget_rows, flap_rows
from notifiers.dispatch.group import Timer
from notifiers.dispatch.log import LogEntry, NotificationLog

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert
    from notifiers.dispatch.group import Group

logger = logging.getLogger(__name__)

# An entry that nobody has written again for so long owes nothing any more.
OWED_MS = 90 * 86_400_000

_SCHEMA = """
-- The newest state of each alert that fires, or whose end is still owed to somebody.
CREATE TABLE IF NOT EXISTS notify_alert (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,
    alert TEXT NOT NULL
);
-- With which labels alerts are sent that somebody may have been told of, where not with their own.
CREATE TABLE IF NOT EXISTS notify_sent_as (
    fingerprint TEXT PRIMARY KEY,
    labels TEXT NOT NULL
);
-- Who has seen an alert that fires, as it fired then.
CREATE TABLE IF NOT EXISTS notify_ack (
    fingerprint TEXT PRIMARY KEY,
    fired_at_ms INTEGER NOT NULL,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS notify_group (
    id TEXT PRIMARY KEY,
    next_flush_ms INTEGER NOT NULL,
    flushed INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS notify_log (
    group_key TEXT NOT NULL,
    integration TEXT NOT NULL,
    sent_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    firing TEXT NOT NULL,
    told TEXT NOT NULL,
    group_labels TEXT NOT NULL,
    receiver TEXT NOT NULL,
    refused_ms INTEGER NOT NULL,
    PRIMARY KEY (group_key, integration)
);
"""


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables if they are missing."""
    connection.executescript(_SCHEMA)
    flap_rows.create_table(connection)
    budget_rows.create_table(connection)


def put_alerts(connection: sqlite3.Connection, alerts: Iterable[Alert]) -> None:
    """Each alert in its newest state, in the caller's transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO notify_alert (fingerprint, alert) VALUES (?, ?)",
        [(fingerprint(alert.labels), json.dumps(alert_to_json(alert))) for alert in alerts],
    )


def put_missing_alerts(connection: sqlite3.Connection, alerts: Iterable[Alert]) -> None:
    """Those of which there is no row, in the caller's transaction."""
    connection.executemany(
        "INSERT OR IGNORE INTO notify_alert (fingerprint, alert) VALUES (?, ?)",
        [(fingerprint(alert.labels), json.dumps(alert_to_json(alert))) for alert in alerts],
    )


def alerts_since(connection: sqlite3.Connection, sequence: int) -> tuple[int, list[Alert]]:
    """Alerts put after `sequence`, in that order, and the newest sequence."""
    rows = connection.execute(
        "SELECT sequence, alert FROM notify_alert WHERE sequence > ? ORDER BY sequence", (sequence,)
    ).fetchall()
    newest = rows[-1][0] if rows else sequence
    return newest, [one for _, text in rows if (one := read_alert(text)) is not None]


def told_alerts(connection: sqlite3.Connection, integration: str) -> list[Alert]:
    """Alerts that an integration was told of and not of their end, as the rules gave them."""
    rows = connection.execute(
        "SELECT told FROM notify_log WHERE integration = ?", (integration,)
    ).fetchall()
    found = []
    for identity in sorted(set().union(*(_set(told) for (told,) in rows))):
        row = connection.execute(
            "SELECT alert FROM notify_alert WHERE fingerprint = ?", (identity,)
        ).fetchone()
        if row is not None and (one := read_alert(row[0])) is not None:
            found.append(one)
    return found


def read_alert(text: str) -> Alert | None:
    """The alert of a row; None, and said in the log, where it cannot be read."""
    try:
        return alert_from_json(json.loads(text))
    except (ValueError, TypeError, KeyError):
        logger.exception("nobody is told of an alert in state.db that cannot be read: %s", text)
        return None


def drop_alerts(connection: sqlite3.Connection, fingerprints: Sequence[str], sequence: int) -> None:
    """Forget alerts, except what came after `sequence`: it may fire again."""
    for table in ("notify_sent_as", "notify_ack"):
        connection.executemany(
            f"DELETE FROM {table} WHERE fingerprint = ?",  # noqa: S608 - one of two constants
            [(each,) for each in fingerprints],
        )
    connection.executemany(
        "DELETE FROM notify_alert WHERE fingerprint = ? AND sequence <= ?",
        [(each, sequence) for each in fingerprints],
    )


def put_timers(connection: sqlite3.Connection, groups: Iterable[Group]) -> None:
    """When groups speak next."""
    connection.executemany(
        "INSERT OR REPLACE INTO notify_group VALUES (?, ?, ?)",
        [(group.id, group.timer.next_flush_ms, group.timer.flushed) for group in groups],
    )


def drop_timers(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Groups that are gone."""
    connection.executemany("DELETE FROM notify_group WHERE id = ?", [(own,) for own in ids])


def timers(connection: sqlite3.Connection) -> dict[str, Timer]:
    """By the id of the group."""
    rows = connection.execute("SELECT id, next_flush_ms, flushed FROM notify_group")
    return {own: Timer(next_ms, flushed=bool(flushed)) for own, next_ms, flushed in rows}


def read_log(connection: sqlite3.Connection, now_ms: int) -> NotificationLog:
    """All entries, less those that are too old to owe anything."""
    connection.execute("DELETE FROM notify_log WHERE expires_ms < ?", (now_ms - OWED_MS,))
    log = NotificationLog()
    rows = connection.execute(
        "SELECT group_key, integration, sent_ms, expires_ms, firing, told, group_labels,"
        " receiver, refused_ms FROM notify_log"
    )
    for group, key, sent, expires, firing, told, labels, receiver, refused in rows:
        try:
            pairs = tuple((name, value) for name, value in json.loads(labels))
            entry = LogEntry(sent, expires, _set(firing), _set(told), pairs, receiver, refused)
        except (ValueError, TypeError):
            logger.exception("what %s was told of %s cannot be read", key, group)
            continue
        log.write(group, key, entry)
    owed = log.owed()
    log.sent_as = {own: labels for own, labels in sent_as(connection).items() if own in owed}
    log.saved()
    return log


def sent_as(connection: sqlite3.Connection) -> dict[str, Labels]:
    """By fingerprint, the labels with which alerts are sent, where they are not their own.

    Those that cannot be read are left out, and said in the log.
    """
    found = {}
    for identity, text in connection.execute("SELECT fingerprint, labels FROM notify_sent_as"):
        try:
            labels = Labels(json.loads(text))
        except (ValueError, TypeError):
            logger.exception("as what the alert %s is sent cannot be read", identity)
            continue
        found[identity] = labels
    return found


def save_log(connection: sqlite3.Connection, log: NotificationLog) -> None:
    """Write what changed, in the caller's transaction; `log.saved()` is for after it."""
    connection.executemany(
        "INSERT OR REPLACE INTO notify_sent_as VALUES (?, ?)",
        [(identity, json.dumps(log.sent_as[identity].to_dict())) for identity in log.newly_sent_as],
    )
    for key in log.changed:
        entry = log.entry(*key)
        if entry is None:
            connection.execute(
                "DELETE FROM notify_log WHERE group_key = ? AND integration = ?", key
            )
            continue
        texts = _text(entry.firing), _text(entry.told), json.dumps(entry.group_labels)
        connection.execute(
            "INSERT OR REPLACE INTO notify_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, entry.sent_ms, entry.expires_ms, *texts, entry.receiver, entry.refused_ms),
        )


def _set(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def _text(fingerprints: frozenset[str]) -> str:
    return json.dumps(sorted(fingerprints))
