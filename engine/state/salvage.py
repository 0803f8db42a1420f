"""What can still be read of a damaged database, into a sound one.

A row counts as read where each value has the type that its column was declared with: a flipped bit
may well leave a row that SQLite takes for sound.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TYPES: dict[str, type] = {"INTEGER": int, "TEXT": str, "BLOB": bytes, "REAL": float}


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether SQLite and the types of all values find no fault."""
    try:
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            return False
        return all(_is_whole(connection, table) for table in tables(connection))
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def tables(connection: sqlite3.Connection) -> list[str]:
    """Their names. Raises sqlite3.Error."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return [name for (name,) in connection.execute(query)]


def salvage(
    damaged: sqlite3.Connection, target: sqlite3.Connection, names: frozenset[str] | None = None
) -> frozenset[str]:
    """Fill the tables that `target` has; those of which something is missing, or may be.

    `names`: of these only. `damaged` may be a connection to anything. Raises sqlite3.Error for what
    `target` does not take.
    """
    wanted = tables(target) if names is None else sorted(names)
    before = damaged.text_factory
    damaged.text_factory = bytes
    try:
        target.execute("BEGIN IMMEDIATE")
        lost = frozenset(one for one in wanted if not _fill(damaged, target, one))
        target.execute("COMMIT")
    finally:
        damaged.text_factory = before
    return lost


def _fill(damaged: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    """From both ends, as far as they can be read; True: nothing is missing."""
    columns = _columns(target, table)
    names = ", ".join(name for name, _ in columns)
    insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - names of our own schema
    query = f"SELECT {names} FROM {table}"  # noqa: S608 - same
    whole = False
    for order in ("", " ORDER BY rowid DESC"):
        with suppress(sqlite3.Error, OverflowError):
            bad = 0
            for row in damaged.execute(query + order):
                read = _typed(row, [kind for _, kind in columns])
                bad += read is None
                if read is not None:
                    with suppress(sqlite3.IntegrityError):
                        target.execute(insert, read)
            whole = whole or not bad
            break
    return whole and _agrees(damaged, target, table)


def _agrees(damaged: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    """Both have as many rows, and the damaged table's pages are in order."""
    count = f"SELECT count(*) FROM {table}"  # noqa: S608 - a name of our own schema
    try:
        ((before,),) = damaged.execute(count).fetchall()
        ((verdict,),) = damaged.execute(f"PRAGMA quick_check({table})").fetchall()[:1]
    except (sqlite3.Error, ValueError):
        return False
    ((after,),) = target.execute(count).fetchall()
    return bool(before == after and verdict in {"ok", b"ok"})


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    return [
        (name, kind.upper())
        for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
    ]


def _typed(row: Sequence[Any], kinds: Sequence[str]) -> list[Any] | None:
    """The values as Python's, text decoded; None where one has not its column's type."""
    found: list[Any] = []
    for value, kind in zip(row, kinds, strict=True):
        read = value
        if kind == "TEXT" and isinstance(value, bytes):
            try:
                read = value.decode()
            except UnicodeDecodeError:
                return None
        if read is not None and not isinstance(read, _TYPES.get(kind, object)):
            return None
        found.append(read)
    return found


def _is_whole(connection: sqlite3.Connection, table: str) -> bool:
    columns = _columns(connection, table)
    names = ", ".join(name for name, _ in columns)
    kinds = [kind for _, kind in columns]
    rows: Iterator[Sequence[Any]] = connection.execute(f"SELECT {names} FROM {table}")  # noqa: S608 - a name of our own schema
    return all(_typed(row, kinds) is not None for row in rows)
