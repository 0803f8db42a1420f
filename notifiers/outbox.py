"""The outbox: what is to be sent, in state.db beside the alert state it belongs to.

One row per alert transition and integration. A row is `pending` until the receiver has taken it
(`delivered`) or it is given up (`failed`, which stays visible for a week).
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.alerts.encoding import alert_to_json
from engine.alerts.fingerprint import fingerprint
from notifiers.entry import COLUMNS, Backlog, entry_of
from notifiers.notification import fired_at_ms, message_id, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from notifiers.entry import Entry, State

BUSY_SECONDS = 30.0
KEPT_MS = 7 * 86_400_000
# A firing that was delivered is kept until its resolution, which is owed; but not for ever.
OWED_MS = 90 * 86_400_000
# No wait is ever as long: a row that seems to have one was written before the clock was set back.
LONGEST_WAIT_MS = 2 * 3_600_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS notify_outbox (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    receiver TEXT NOT NULL,
    integration TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    fired_at_ms INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('firing', 'resolved')),
    alert TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    next_attempt_ms INTEGER NOT NULL,
    finished_at_ms INTEGER
);
CREATE INDEX IF NOT EXISTS notify_outbox_next
    ON notify_outbox (integration, sequence) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS notify_outbox_open
    ON notify_outbox (receiver, state, created_at_ms) WHERE state != 'delivered';
CREATE INDEX IF NOT EXISTS notify_outbox_alert ON notify_outbox (fingerprint, fired_at_ms);
"""

# The oldest row that is due and has no earlier row of its own alert in front of it.
_DUE = f"""
SELECT {COLUMNS} FROM notify_outbox AS own
WHERE integration = :key AND state = 'pending'
  AND next_attempt_ms NOT BETWEEN :now + 1 AND :now + :longest AND NOT EXISTS (
    SELECT 1 FROM notify_outbox AS earlier
    WHERE earlier.fingerprint = own.fingerprint AND earlier.integration = own.integration
      AND earlier.state = 'pending' AND earlier.sequence < own.sequence)
ORDER BY sequence LIMIT 1
"""  # noqa: S608 - a constant


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables if they are missing."""
    connection.executescript(_SCHEMA)


def add_firing(
    connection: sqlite3.Connection,
    alert: Alert,
    receiver: str,
    integrations: Sequence[str],
    now_ms: int,
) -> None:
    """Owe the alert to a receiver's integrations. Adding the same transition again does nothing."""
    for integration in integrations:
        _insert(connection, alert, receiver, integration, now_ms)


def add_resolved(
    connection: sqlite3.Connection, alert: Alert, wanted: Mapping[str, bool], now_ms: int
) -> None:
    """Owe the resolution to each integration that was told of the firing, or still will be.

    `wanted`: the integrations that there are and whether each wants to hear of ends
    (`send_resolved`). One that does not gets a row that counts as done; for one that is no
    longer configured the row has failed at once.
    """
    rows = connection.execute(
        "SELECT receiver, integration FROM notify_outbox WHERE fingerprint = ? AND fired_at_ms = ?"
        " AND status = 'firing' AND state != 'failed' ORDER BY sequence",
        (fingerprint(alert.labels), fired_at_ms(alert)),
    ).fetchall()
    for receiver, integration in rows:
        if integration not in wanted:
            _insert(connection, alert, receiver, integration, now_ms, "failed", "receiver_removed")
        else:
            state: State = "pending" if wanted[integration] else "delivered"
            _insert(connection, alert, receiver, integration, now_ms, state)


def _insert(
    connection: sqlite3.Connection,
    alert: Alert,
    receiver: str,
    integration: str,
    now_ms: int,
    state: State = "pending",
    reason: str = "",
) -> None:
    finished = None if state == "pending" else now_ms
    connection.execute(
        "INSERT OR IGNORE INTO notify_outbox (id, receiver, integration, fingerprint, fired_at_ms,"
        " status, alert, state, reason, created_at_ms, next_attempt_ms, finished_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            message_id(alert, integration), receiver, integration, fingerprint(alert.labels),
            fired_at_ms(alert), status_of(alert), json.dumps(alert_to_json(alert)), state, reason,
            now_ms, now_ms, finished,
        ),
    )  # fmt: skip


class Outbox:
    """One thread's view of the outbox: a connection of its own."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A receiver that has taken a message must not get it again after a power cut either.
        self._connection.execute("PRAGMA synchronous = FULL")

    def create(self) -> None:
        """Make the tables if they are missing."""
        create_tables(self._connection)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def due(self, integration: str, now_ms: int) -> Entry | None:
        """The next row to send, or None."""
        asked = {"key": integration, "now": now_ms, "longest": LONGEST_WAIT_MS}
        row = self._connection.execute(_DUE, asked).fetchone()
        return None if row is None else entry_of(row)

    def next_due_ms(self, integration: str) -> int | None:
        """When the earliest pending row may be tried; None when nothing is pending."""
        (due_ms,) = self._connection.execute(
            "SELECT min(next_attempt_ms) FROM notify_outbox"
            " WHERE integration = ? AND state = 'pending'",
            (integration,),
        ).fetchone()
        return None if due_ms is None else int(due_ms)

    def delivered(self, entry: Entry, now_ms: int) -> None:
        """The receiver has taken it."""
        self._finish(entry.id, "delivered", "", "", now_ms)

    def retry(self, entry: Entry, at_ms: int, reason: str, detail: str) -> None:
        """It was not taken; try again at `at_ms`."""
        self._connection.execute(
            "UPDATE notify_outbox SET attempts = attempts + 1, next_attempt_ms = ?, reason = ?,"
            " detail = ? WHERE id = ?",
            (at_ms, reason, detail, entry.id),
        )

    def fail(self, entry: Entry, reason: str, detail: str, now_ms: int) -> int:
        """Give it up; a firing takes the resolution of the same alert with it.

        Returns how many rows failed. A receiver that never heard of the firing is not owed its
        end.
        """
        with self._transaction():
            self._finish(entry.id, "failed", reason, detail, now_ms)
            if entry.status != "firing":
                return 1
            cursor = self._connection.execute(
                "UPDATE notify_outbox SET state = 'failed', reason = 'firing_not_delivered',"
                " finished_at_ms = ? WHERE integration = ? AND state = 'pending'"
                " AND status = 'resolved' AND (fingerprint, fired_at_ms) ="
                " (SELECT fingerprint, fired_at_ms FROM notify_outbox WHERE id = ?)",
                (now_ms, entry.integration, entry.id),
            )
            return 1 + cursor.rowcount

    def abandon_others(self, integrations: Sequence[str], now_ms: int) -> list[tuple[str, int]]:
        """Fail what is pending for integrations that the configuration no longer has.

        Returns (receiver, rows) of those.
        """
        marks = ", ".join("?" * len(integrations))
        where = f"state = 'pending' AND integration NOT IN ({marks})"
        with self._transaction():
            gone = self._connection.execute(
                f"SELECT receiver, count(*) FROM notify_outbox WHERE {where} GROUP BY receiver",  # noqa: S608 - question marks only
                tuple(integrations),
            ).fetchall()
            self._connection.execute(
                "UPDATE notify_outbox SET state = 'failed', reason = 'receiver_removed',"  # noqa: S608 - question marks only
                f" finished_at_ms = ? WHERE {where}",
                (now_ms, *integrations),
            )
        return gone

    def backlog(self) -> dict[str, Backlog]:
        """The state of each receiver that has rows pending or failed."""
        rows = self._connection.execute(
            "SELECT receiver, sum(state = 'pending'),"
            " min(CASE WHEN state = 'pending' THEN created_at_ms END), sum(state = 'failed')"
            " FROM notify_outbox WHERE state != 'delivered' GROUP BY receiver"
        )
        return {receiver: Backlog(*counts) for receiver, *counts in rows}

    def entries(self, state: State, limit: int = 1000) -> list[Entry]:
        """Rows of a state, oldest first; `limit` -1: all."""
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM notify_outbox WHERE state = ? ORDER BY sequence LIMIT ?",  # noqa: S608 - a constant
            (state, limit),
        )
        return [entry_of(row) for row in rows]

    def prune(self, now_ms: int) -> None:
        """Forget what is done and past its time; a firing whose resolution is owed stays."""
        self._connection.execute(
            "DELETE FROM notify_outbox WHERE state != 'pending' AND finished_at_ms < ?"
            " AND (state = 'failed' OR status = 'resolved' OR finished_at_ms < ? OR EXISTS ("
            "  SELECT 1 FROM notify_outbox AS later WHERE later.status = 'resolved'"
            "  AND later.fingerprint = notify_outbox.fingerprint"
            "  AND later.fired_at_ms = notify_outbox.fired_at_ms"
            "  AND later.integration = notify_outbox.integration AND later.state != 'pending'))",
            (now_ms - KEPT_MS, now_ms - OWED_MS),
        )

    def _finish(self, identity: str, state: State, reason: str, detail: str, now_ms: int) -> None:
        self._connection.execute(
            "UPDATE notify_outbox SET state = ?, reason = ?, detail = ?, finished_at_ms = ?,"
            " attempts = attempts + 1 WHERE id = ?",
            (state, reason, detail, now_ms, identity),
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
