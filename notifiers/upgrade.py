"""What earlier versions left in state.db: an outbox of one row per alert, without groups.

What waits is sent, what failed stays listed, and whoever was told of an alert hears its end.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch import tables
from notifiers.dispatch.deduplication import RETENTION_MS
from notifiers.dispatch.log import LogEntry, NotificationLog
from notifiers.notification import ALL_RESOLVED, FIRST_NOTIFICATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.alerts.alert import Alert

logger = logging.getLogger(__name__)

_COLUMNS = (
    "id, receiver, integration, fingerprint, status, alert, state, reason, detail, attempts,"
    " created_at_ms, next_attempt_ms, finished_at_ms"
)
# Of whom a firing alert was told, or will be, and not of its end.
_OWED = """
SELECT receiver, integration, fingerprint, alert FROM notify_outbox AS own
WHERE status = 'firing' AND state != 'failed' AND NOT EXISTS (
    SELECT 1 FROM notify_outbox AS later
    WHERE later.integration = own.integration AND later.fingerprint = own.fingerprint
      AND later.fired_at_ms = own.fired_at_ms AND later.status = 'resolved')
ORDER BY sequence
"""


def move_old_outbox(connection: sqlite3.Connection, now_ms: int) -> None:
    """Take over the table `notify_outbox`, if there is one, and drop it. Raises sqlite3.Error."""
    known = "SELECT count(*) FROM sqlite_master WHERE name = 'notify_outbox'"
    if not connection.execute(known).fetchone()[0]:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        moved = _move_rows(connection)
        owed = list(_owed(connection))
        tables.put_alerts(
            connection, {fingerprint(each[2].labels): each[2] for each in owed}.values()
        )
        _write_log(connection, owed, now_ms)
        connection.execute("DROP TABLE notify_outbox")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    logger.warning(
        "the outbox of an earlier version was taken over: %d notifications wait or have failed,"
        " %d ends are owed",
        moved,
        len(owed),
    )


def _move_rows(connection: sqlite3.Connection) -> int:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM notify_outbox WHERE state != 'delivered' ORDER BY sequence"  # noqa: S608 - a constant
    ).fetchall()
    for row in rows:
        own, receiver, integration, identity, status, alert, *rest = row
        firing = json.dumps([identity] if status == "firing" else [])
        connection.execute(
            "INSERT INTO notify_message (id, receiver, integration, group_key, group_labels,"
            " status, alerts, news, firing, state, reason, detail, attempts, created_at_ms,"
            " next_attempt_ms, finished_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " ?) ON CONFLICT (id) DO NOTHING",
            (
                own, receiver, integration, _group_key(identity), json.dumps(_labels(alert)),
                status, f"[{alert}]", ALL_RESOLVED if status == "resolved" else FIRST_NOTIFICATION,
                firing, *rest,
            ),
        )  # fmt: skip
    return len(rows)


def _group_key(identity: str) -> str:
    return f"{{}}:{identity}"


def _labels(alert: str) -> dict[str, str]:
    found = tables.read_alert(alert)
    return {} if found is None else found.labels.to_dict()


def _owed(connection: sqlite3.Connection) -> Iterable[tuple[str, str, Alert]]:
    for receiver, integration, _, text in connection.execute(_OWED).fetchall():
        alert = tables.read_alert(text)
        if alert is not None:
            yield receiver, integration, alert


def _write_log(
    connection: sqlite3.Connection, owed: Iterable[tuple[str, str, Alert]], now_ms: int
) -> None:
    log = NotificationLog()
    for receiver, integration, alert in owed:
        own = frozenset({fingerprint(alert.labels)})
        labels = tuple(alert.labels)
        entry = LogEntry(now_ms, now_ms + RETENTION_MS, own, own, labels, receiver)
        log.write(_group_key(fingerprint(alert.labels)), integration, entry)
    tables.save_log(connection, log)
