"""The courses of alerts in state.db, so that one that flaps does so after a restart too."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from notifiers.dispatch.flapping import Course

if TYPE_CHECKING:
    import sqlite3

    from notifiers.dispatch.flapping import Flaps

logger = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS notify_course (
    fingerprint TEXT PRIMARY KEY,
    fires INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    times TEXT NOT NULL,
    flaps INTEGER NOT NULL,
    total INTEGER NOT NULL,
    since_ms INTEGER NOT NULL
);
"""


def create_table(connection: sqlite3.Connection) -> None:
    """Make the table if it is missing."""
    connection.executescript(_SCHEMA)


def read_courses(connection: sqlite3.Connection) -> dict[str, Course]:
    """By fingerprint; one that cannot be read is left out, and said in the log."""
    found = {}
    rows = connection.execute(
        "SELECT fingerprint, fires, at_ms, times, flaps, total, since_ms FROM notify_course"
    )
    for identity, fires, at_ms, text, flaps, total, since_ms in rows:
        try:
            times = tuple(map(int, json.loads(text)))
        except (ValueError, TypeError):
            logger.exception("how the alert %s has changed cannot be read", identity)
            continue
        found[identity] = Course(bool(fires), at_ms, times, bool(flaps), total, since_ms)
    return found


def save_courses(connection: sqlite3.Connection, flaps: Flaps) -> None:
    """Write what changed, in the caller's transaction; `flaps.saved()` is for after it."""
    for identity in flaps.changed:
        one = flaps.course(identity)
        if one is None:
            connection.execute("DELETE FROM notify_course WHERE fingerprint = ?", (identity,))
            continue
        connection.execute(
            "INSERT OR REPLACE INTO notify_course VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                identity,
                one.fires,
                one.at_ms,
                json.dumps(one.times),
                one.flaps,
                one.total,
                one.since_ms,
            ),
        )
