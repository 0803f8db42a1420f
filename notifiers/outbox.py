"""The outbox: what is to be sent, in state.db beside the alert state it belongs to.

One row per message of a group to an integration. A row is `pending` until the receiver has taken
it (`delivered`) or it is given up (`failed`, which stays visible for a week).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from engine.alerts.encoding import alert_to_json
from engine.alerts.fingerprint import fingerprint
from engine.state.connection import StateConnection
from engine.state.connection import connect as connect_to
from engine.state.file import StateFile
from notifiers.dead_letters import SCHEMA as RESENT
from notifiers.dead_letters import dead_ids, resend
from notifiers.dispatch.group import is_firing
from notifiers.entry import COLUMNS, Backlog, entry_of
from notifiers.refusals import SCHEMA as REFUSALS
from notifiers.refusals import put_refusal

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from engine.alerts.alert import Alert
    from notifiers.dead_letters import Resent
    from notifiers.dispatch.message import Message
    from notifiers.entry import Entry, State

ResultT = TypeVar("ResultT")
KEPT_MS = 7 * 86_400_000
# No wait is ever as long: a row that seems to have one was written before the clock was set back.
LONGEST_WAIT_MS = 2 * 3_600_000

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS notify_message (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    receiver TEXT NOT NULL,
    integration TEXT NOT NULL,
    group_key TEXT NOT NULL,
    group_labels TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('firing', 'resolved')),
    alerts TEXT NOT NULL,
    news TEXT NOT NULL,
    firing TEXT NOT NULL DEFAULT '[]',
    retold TEXT NOT NULL DEFAULT '[]',
    sent_as TEXT NOT NULL DEFAULT '{{}}',
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    detail TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    next_attempt_ms INTEGER NOT NULL,
    finished_at_ms INTEGER
);
CREATE INDEX IF NOT EXISTS notify_message_next
    ON notify_message (integration, sequence) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS notify_message_open
    ON notify_message (receiver, state, created_at_ms) WHERE state != 'delivered';
CREATE INDEX IF NOT EXISTS notify_message_group
    ON notify_message (integration, group_key) WHERE state = 'pending';
{REFUSALS}
{RESENT}
"""

# The oldest row that is due and has no earlier row of its own group in front of it.
_DUE = f"""
SELECT {COLUMNS} FROM notify_message AS own
WHERE integration = :key AND state = 'pending'
  AND next_attempt_ms NOT BETWEEN :now + 1 AND :now + :longest AND NOT EXISTS (
    SELECT 1 FROM notify_message AS earlier
    WHERE earlier.group_key = own.group_key AND earlier.integration = own.integration
      AND earlier.state = 'pending' AND earlier.sequence < own.sequence)
ORDER BY sequence LIMIT 1
"""  # noqa: S608 - a constant


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables if they are missing."""
    connection.executescript(_SCHEMA)
    own = {name for _, name, *_ in connection.execute("PRAGMA table_info(notify_message)")}
    for column, empty in (("firing", "[]"), ("retold", "[]"), ("sent_as", "{}")):
        if column not in own:
            connection.execute(
                f"ALTER TABLE notify_message ADD COLUMN {column} TEXT NOT NULL DEFAULT '{empty}'"
            )


def add(connection: sqlite3.Connection, message: Message, now_ms: int) -> None:
    """Owe a message to its integration. Adding the same one again does nothing.

    Of an integration that is not configured any more it has failed at once.
    """
    firing = sorted(fired(message.alerts))
    status = "firing" if firing else "resolved"
    connection.execute(
        "INSERT INTO notify_message (id, receiver, integration, group_key, group_labels,"
        " status, alerts, news, firing, retold, sent_as, state, reason, created_at_ms,"
        " next_attempt_ms, finished_at_ms, attempts)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (
            message.id, message.receiver, message.integration, message.group_key,
            json.dumps(message.group_labels), status,
            json.dumps([alert_to_json(alert) for alert in message.alerts]), message.reason,
            json.dumps(firing), json.dumps(sorted(message.retold)),
            json.dumps({own: labels.to_dict() for own, labels in message.sent_as.items()}),
            *(("failed", "receiver_removed") if message.is_removed else ("pending", "")),
            now_ms, now_ms, now_ms if message.is_removed else None,
            # An attempt of which nothing is known any more.
            int(message.may_repeat),
        ),
    )  # fmt: skip


def connect(path: str) -> sqlite3.Connection:
    """A connection to a file, which is made if it is missing. Raises sqlite3.Error."""
    return connect_to(path, "FULL", create=True)


class Outbox:
    """One thread's view of the outbox: a connection of its own, that goes where the file goes.

    Every method raises sqlite3.Error.
    """

    def __init__(self, state: str | StateFile) -> None:
        # A receiver that has taken a message must not get it again after a power cut either.
        self._own = StateConnection(StateFile.of(state), "FULL")

    def create(self) -> None:
        """Make the tables if they are missing."""
        create_tables(self._own.now())

    def close(self) -> None:
        """Close the connection."""
        self._own.close()

    def refused(self, error: Exception) -> bool:
        """The file gave this error; True: it has moved since, and the same is worth a try."""
        return self._own.refused(error)

    def read(self, what: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        """Ask something else of the same database."""
        return what(self._own.now())

    def lost_row(self) -> None:
        """A row cannot be read: what it told, nobody may have heard."""
        self._own.file.lost_rows()

    def due(self, integration: str, now_ms: int) -> Entry | None:
        """The next row to send, or None."""
        asked = {"key": integration, "now": now_ms, "longest": LONGEST_WAIT_MS}
        row = self._own.now().execute(_DUE, asked).fetchone()
        return None if row is None else entry_of(row)

    def next_due_ms(self, integration: str) -> int | None:
        """When the earliest pending row may be tried; None when nothing is pending."""
        (due_ms,) = (
            self._own.now()
            .execute(
                "SELECT min(next_attempt_ms) FROM notify_message"
                " WHERE integration = ? AND state = 'pending'",
                (integration,),
            )
            .fetchone()
        )
        return None if due_ms is None else int(due_ms)

    def attempt(self, entry: Entry) -> None:
        """It is about to be sent: whatever becomes of this process, it may have arrived."""
        with self._own.writing() as connection:
            connection.execute(
                "UPDATE notify_message SET attempts = attempts + 1 WHERE id = ?", (entry.id,)
            )

    def delivered(self, entry: Entry, now_ms: int) -> None:
        """The receiver has taken it."""
        with self._own.writing() as connection:
            _finish(connection, entry.id, "delivered", "", "", now_ms)

    def retry(self, entry: Entry, at_ms: int, reason: str, detail: str) -> None:
        """It was not taken; try again at `at_ms`."""
        with self._own.writing() as connection:
            connection.execute(
                "UPDATE notify_message SET next_attempt_ms = ?, reason = ?, detail = ?"
                " WHERE id = ?",
                (at_ms, reason, detail, entry.id),
            )

    def fail(self, entry: Entry, reason: str, detail: str, now_ms: int) -> int:
        """Give it up; it takes the resolutions with it that only it would have made sense of.

        Returns how many rows failed. A receiver that never heard that an alert fires is not owed
        its end.
        """
        firing = fired(entry.alerts)
        unheard = firing - entry.retold
        with self._own.writing() as connection:
            _finish(connection, entry.id, "failed", reason, detail, now_ms)
            if not firing:
                return 1
            put_refusal(connection, entry.id, firing, unheard)
            later = connection.execute(
                f"SELECT {COLUMNS} FROM notify_message WHERE integration = ? AND group_key = ?"  # noqa: S608 - a constant
                " AND state = 'pending' ORDER BY sequence",
                (entry.integration, entry.group_key),
            ).fetchall()
            lost = list(_pointless(map(entry_of, later), unheard))
            connection.executemany(
                "UPDATE notify_message SET state = 'failed', reason = 'firing_not_delivered',"
                " finished_at_ms = ? WHERE id = ?",
                [(now_ms, identity) for identity in lost],
            )
            return 1 + len(lost)

    def resend(
        self, ids: Sequence[str] | None, known: Collection[str], now_ms: int
    ) -> list[Resent]:
        """Let messages that were given up be sent again; `ids` None: all. See dead_letters."""
        with self._own.writing() as connection:
            wanted = dead_ids(connection) if ids is None else ids
            return resend(connection, wanted, known, now_ms)

    def abandon_others(self, integrations: Sequence[str], now_ms: int) -> list[tuple[str, int]]:
        """Fail what is pending for integrations that the configuration no longer has.

        Nobody was told what they say, so that it is news to who is configured again. Returns
        (receiver, rows) of those.
        """
        marks = ", ".join("?" * len(integrations))
        with self._own.writing() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM notify_message WHERE state = 'pending'"  # noqa: S608 - constants and question marks
                f" AND integration NOT IN ({marks}) ORDER BY sequence",
                tuple(integrations),
            ).fetchall()
            gone = [entry_of(row) for row in rows]
            for entry in gone:
                _finish(connection, entry.id, "failed", "receiver_removed", "", now_ms)
                if firing := fired(entry.alerts):
                    put_refusal(connection, entry.id, firing, firing - entry.retold)
        return list(Counter(entry.receiver for entry in gone).items())

    def backlog(self) -> dict[str, Backlog]:
        """The state of each receiver that has rows pending or failed."""
        rows = self._own.now().execute(
            "SELECT receiver, sum(state = 'pending'),"
            " min(CASE WHEN state = 'pending' THEN created_at_ms END), sum(state = 'failed')"
            " FROM notify_message WHERE state != 'delivered' GROUP BY receiver"
        )
        return {receiver: Backlog(*counts) for receiver, *counts in rows}

    def entries(self, state: State, limit: int = 1000) -> list[Entry]:
        """Rows of a state, oldest first; `limit` -1: all."""
        rows = self._own.now().execute(
            f"SELECT {COLUMNS} FROM notify_message WHERE state = ? ORDER BY sequence LIMIT ?",  # noqa: S608 - a constant
            (state, limit),
        )
        return [entry_of(row) for row in rows]

    def entry(self, identity: str) -> Entry | None:
        """The row with an id."""
        rows = self._own.now().execute(
            f"SELECT {COLUMNS} FROM notify_message WHERE id = ?",  # noqa: S608 - a constant
            (identity,),
        )
        row = rows.fetchone()
        return None if row is None else entry_of(row)

    def prune(self, now_ms: int) -> None:
        """Forget what is done and past its time."""
        with self._own.writing() as connection:
            connection.execute(
                "DELETE FROM notify_message WHERE state != 'pending' AND finished_at_ms < ?",
                (now_ms - KEPT_MS,),
            )


def _finish(
    connection: sqlite3.Connection,
    identity: str,
    state: State,
    reason: str,
    detail: str,
    now_ms: int,
) -> None:
    connection.execute(
        "UPDATE notify_message SET state = ?, reason = ?, detail = ?, finished_at_ms = ?"
        " WHERE id = ?",
        (state, reason, detail, now_ms, identity),
    )


def fired(alerts: Iterable[Alert]) -> set[str]:
    """The fingerprints of those that fire."""
    return {fingerprint(alert.labels) for alert in alerts if is_firing(alert)}


def _pointless(later: Iterable[Entry], unheard: set[str]) -> Iterator[str]:
    """Ids of messages of nothing but ends of what nobody heard of, in the messages before them."""
    unheard = set(unheard)
    for row in later:
        told = {fingerprint(alert.labels) for alert in row.alerts}
        if row.status == "resolved" and told and told <= unheard:
            yield row.id
        unheard -= fired(row.alerts)
