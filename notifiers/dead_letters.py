"""Dead letters: messages that were given up, and sending them again when somebody asks for it.

All of it is one transaction on state.db, so that it may be asked of an agent that runs or of the
file of one that does not, twice too, and a kill leaves it done or not done.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.alerts.encoding import alert_from_json, alert_to_json
from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.tables import read_alert
from notifiers.entry import COLUMNS, entry_of
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Sequence

    from engine.alerts.alert import Alert
    from notifiers.entry import Entry

SCHEMA = """
-- What a message says that is sent again; the dispatcher takes it into its log.
CREATE TABLE IF NOT EXISTS notify_resent (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    integration TEXT NOT NULL,
    group_key TEXT NOT NULL,
    receiver TEXT NOT NULL,
    group_labels TEXT NOT NULL,
    firing TEXT NOT NULL
);
"""
POINTLESS = "firing_not_delivered"


@dataclass(frozen=True, slots=True)
class Resent:
    """What became of one that was asked for. `refused`: why it is not sent again, or ""."""

    id: str
    integration: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """A message that is sent again, for the log: fingerprints of what it says is firing."""

    sequence: int
    integration: str
    group_key: str
    receiver: str
    group_labels: tuple[tuple[str, str], ...]
    firing: frozenset[str]


def resend(
    connection: sqlite3.Connection, ids: Sequence[str], known: Collection[str], now_ms: int
) -> list[Resent]:
    """Let messages that were given up wait to be sent again, in a transaction of the caller's.

    `ids`: as they are listed, or how they begin. `known`: keys of the integrations that there are.
    What has ended since a message was made, it says has ended. Whoever is told anew that an alert
    fires is owed its end.
    """
    return [_resend(connection, wanted, known, now_ms) for wanted in dict.fromkeys(ids)]


def dead_ids(connection: sqlite3.Connection) -> list[str]:
    """All that can be sent again, oldest first."""
    rows = connection.execute(
        "SELECT id FROM notify_message WHERE state = 'failed' AND reason != ? ORDER BY sequence",
        (POINTLESS,),
    )
    return [identity for (identity,) in rows]


def read_told(connection: sqlite3.Connection) -> list[Told]:
    """What is sent again and not in the log yet, oldest first."""
    rows = connection.execute(
        "SELECT sequence, integration, group_key, receiver, group_labels, firing"
        " FROM notify_resent ORDER BY sequence"
    )
    return [
        Told(
            sequence,
            integration,
            group_key,
            receiver,
            tuple(sorted(json.loads(labels).items())),
            frozenset(json.loads(firing)),
        )
        for sequence, integration, group_key, receiver, labels, firing in rows
    ]


def drop_told(connection: sqlite3.Connection, sequence: int) -> None:
    """They are in the log."""
    connection.execute("DELETE FROM notify_resent WHERE sequence <= ?", (sequence,))


def _resend(
    connection: sqlite3.Connection, wanted: str, known: Collection[str], now_ms: int
) -> Resent:
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM notify_message WHERE substr(id, 1, ?) = ? LIMIT 2",  # noqa: S608 - a constant
        (len(wanted), wanted),
    ).fetchall()
    if len(rows) != 1 or not wanted:
        why = "there is no such message" if not rows else "several messages begin like this"
        return Resent(wanted, refused=why)
    entry = entry_of(rows[0])
    if why := _why_not(entry, known):
        return Resent(entry.id, entry.integration, why)
    alerts = [_as_of_now(connection, entry, alert, now_ms) for alert in entry.alerts]
    firing = sorted(fingerprint(alert.labels) for alert in alerts if is_firing(alert))
    connection.execute(
        "UPDATE notify_message SET state = 'pending', reason = '', detail = '', status = ?,"
        " alerts = ?, firing = ?, created_at_ms = ?, next_attempt_ms = ?, finished_at_ms = NULL"
        " WHERE id = ?",
        (
            "firing" if firing else "resolved",
            json.dumps([alert_to_json(alert) for alert in alerts]),
            json.dumps(firing),
            now_ms,
            now_ms,
            entry.id,
        ),
    )
    if firing:
        connection.execute(
            "INSERT INTO notify_resent (integration, group_key, receiver, group_labels, firing)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                entry.integration,
                entry.group_key,
                entry.receiver,
                json.dumps(entry.group_labels),
                json.dumps(firing),
            ),
        )
    return Resent(entry.id, entry.integration)


def _why_not(entry: Entry, known: Collection[str]) -> str:
    if entry.state == "pending":
        return "it waits to be sent already"
    if entry.state == "delivered":
        return "it was delivered"
    if entry.unreadable:
        return entry.unreadable
    if entry.integration not in known:
        return f"the configuration has no {entry.integration} any more"
    if entry.reason == POINTLESS:
        return "nobody was told of what it says is over: send the message again that told of it"
    return ""


def _as_of_now(connection: sqlite3.Connection, entry: Entry, alert: Alert, now_ms: int) -> Alert:
    """The alert, resolved if it is by now; at this moment, if nobody knows any more when."""
    if not is_firing(alert):
        return alert
    row = connection.execute(
        "SELECT alert FROM notify_alert WHERE fingerprint = ?", (fingerprint(alert.labels),)
    ).fetchone()
    newest = None if row is None else read_alert(row[0])
    if newest is not None and newest.fired_at_ms == alert.fired_at_ms:
        return alert if is_firing(newest) else newest
    for one in _told_later(connection, entry):
        if (one.labels, one.fired_at_ms) == (alert.labels, alert.fired_at_ms):
            return one
    return replace(alert, state=AlertState.RESOLVED, resolved_at_ms=now_ms)


def _told_later(connection: sqlite3.Connection, entry: Entry) -> Iterator[Alert]:
    """Ends that messages of the same group tell of."""
    rows = connection.execute(
        "SELECT alerts FROM notify_message WHERE group_key = ? AND sequence > ("
        "SELECT sequence FROM notify_message WHERE id = ?) ORDER BY sequence",
        (entry.group_key, entry.id),
    ).fetchall()
    for (alerts,) in rows:
        try:
            told = [alert_from_json(alert) for alert in json.loads(alerts)]
        except (ValueError, TypeError, KeyError):  # a damaged row says nothing
            continue
        yield from (alert for alert in told if not is_firing(alert))
