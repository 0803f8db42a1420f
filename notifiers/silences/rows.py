"""Silences as rows of state.db, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.alerts.matchers import Matcher
from notifiers.silences.silence import Silence

if TYPE_CHECKING:
    import sqlite3

# One row counts the changes: whoever keeps silences in memory looks there whether they are stale.
SCHEMA = """
CREATE TABLE IF NOT EXISTS notify_silence (
    id TEXT PRIMARY KEY,
    matchers TEXT NOT NULL,
    starts_at_ms INTEGER NOT NULL,
    ends_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    comment TEXT NOT NULL,
    annotations TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notify_silence_version (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL
);
INSERT OR IGNORE INTO notify_silence_version VALUES (1, 0);
"""
COLUMNS = "id, matchers, starts_at_ms, ends_at_ms, updated_at_ms, created_by, comment, annotations"


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables if they are missing."""
    connection.executescript(SCHEMA)


def take_newer(theirs: sqlite3.Connection, own: sqlite3.Connection) -> None:
    """What another process changed in a database whose place `own` is about to take."""
    for silence in read_silences(theirs, -1):
        known = read_silence(own, silence.id, -1)
        if known is None or known.updated_at_ms < silence.updated_at_ms:
            write_silence(own, silence)
            own.execute("UPDATE notify_silence_version SET version = version + 1")


def read_version(connection: sqlite3.Connection) -> int:
    """How many times silences were changed."""
    query = "SELECT version FROM notify_silence_version WHERE id = 1"
    (version,) = connection.execute(query).fetchone()
    return int(version)


def read_silences(connection: sqlite3.Connection, after_ms: int) -> list[Silence]:
    """All that end later than a time."""
    query = f"SELECT {COLUMNS} FROM notify_silence WHERE ends_at_ms > ?"  # noqa: S608 - a constant
    return [_silence(row) for row in connection.execute(query, (after_ms,))]


def read_silence(connection: sqlite3.Connection, identity: str, after_ms: int) -> Silence | None:
    """The one with an id, if it ends later than a time."""
    query = f"SELECT {COLUMNS} FROM notify_silence WHERE id = ? AND ends_at_ms > ?"  # noqa: S608 - a constant
    row = connection.execute(query, (identity, after_ms)).fetchone()
    return None if row is None else _silence(row)


def row_of(silence: Silence) -> tuple[str | int, ...]:
    """The values of COLUMNS."""
    matchers = [(one.label, one.op, one.value) for one in silence.matchers]
    return (
        silence.id,
        json.dumps(matchers, ensure_ascii=False),
        silence.starts_at_ms,
        silence.ends_at_ms,
        silence.updated_at_ms,
        silence.created_by,
        silence.comment,
        json.dumps(dict(silence.annotations), ensure_ascii=False),
    )


def write_silence(connection: sqlite3.Connection, silence: Silence) -> None:
    """Insert or replace one."""
    query = "INSERT OR REPLACE INTO notify_silence VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, row_of(silence))


def _silence(row: tuple[Any, ...]) -> Silence:
    identity, matchers, starts_at_ms, ends_at_ms, updated_at_ms, author, comment, notes = row
    return Silence(
        identity,
        tuple(Matcher(*one) for one in json.loads(matchers)),
        starts_at_ms,
        ends_at_ms,
        updated_at_ms,
        author,
        comment,
        json.loads(notes),
    )
