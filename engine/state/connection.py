"""Connections to state.db: to a path, and one thread's own that follows the file where it goes."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.state.file import StateFile

# Another process may hold the lock so long before the state moves away from it. Nothing of ours
# holds it for longer than a moment.
BUSY_SECONDS = 2.0


def connect(
    path: str | Path, synchronous: str = "NORMAL", *, create: bool = False
) -> sqlite3.Connection:
    """A connection to a file that is there, or to one that is made. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def committing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One transaction: commits at the end, rolls back if the body raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled back already.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


class StateConnection:
    """One thread's connection. Every method raises sqlite3.Error for what the file refuses.

    `synchronous`: NORMAL survives the death of the process, FULL a power cut too.
    """

    def __init__(self, file: StateFile, synchronous: str = "NORMAL") -> None:
        self.file = file
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._generation = -1
        self._closed = False

    def now(self) -> sqlite3.Connection:
        """To read, from the file where it is now."""
        if self._connection is None or self._generation != self.file.generation:
            with self.file.lock:
                self._drop()
                if self._closed:
                    raise sqlite3.ProgrammingError("the connection is closed")
                self._generation = self.file.generation
                self._connection = self.file.connect(self._synchronous)
        return self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, during which the file stays where it is."""
        with self.file.lock, committing(self.now()) as connection:
            yield connection

    def refused(self, error: Exception) -> bool:
        """The file gave this error; True: it has moved since, and the same is worth a try."""
        return self.file.refused(error, self._generation)

    def close(self) -> None:
        """Give it back, for good."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
