"""When rows were lost, for those who must then doubt what was told: kept in the file itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.slotted import dataclass

if TYPE_CHECKING:
    import sqlite3

_TABLES = ("state_loss", "state_loss_at_start")


@dataclass(frozen=True, slots=True)
class Losses:
    """The last ones, in unix milliseconds, 0: never.

    `at_ms`: of any rows. `at_start_ms`: of rows that an earlier agent had written and this one
    could not read, so that nobody remembers since when an alert fires.
    """

    at_ms: int = 0
    at_start_ms: int = 0


def make_tables(connection: sqlite3.Connection) -> None:
    """Make them where they are not there. Raises sqlite3.Error."""
    for table in _TABLES:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (at_ms INTEGER NOT NULL)")


def note(connection: sqlite3.Connection, now_ms: int, *, at_start: bool) -> None:
    """Rows were lost. Raises sqlite3.Error."""
    make_tables(connection)
    for table in _TABLES if at_start else _TABLES[:1]:
        connection.execute(f"INSERT INTO {table} VALUES (?)", (now_ms,))  # noqa: S608 - a name of ours


def last(connection: sqlite3.Connection) -> Losses:
    """Raises sqlite3.Error."""
    query = "SELECT max(at_ms) FROM {}"
    found = [connection.execute(query.format(table)).fetchone()[0] or 0 for table in _TABLES]
    return Losses(*found)
