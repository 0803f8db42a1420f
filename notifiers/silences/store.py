"""The silences of state.db, shared by the agent's threads and by commands of other processes."""

from __future__ import annotations

import threading
import uuid
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.state.connection import StateConnection
from engine.state.file import StateFile
from notifiers.silences import rows
from notifiers.silences.changes import changed, expired
from notifiers.silences.index import SilenceIndex
from notifiers.silences.silence import SilenceError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from engine.labels import Labels
    from notifiers.silences.silence import Silence

# Alertmanager's --data.retention.
RETENTION_MS = 5 * 86_400_000


class UnknownSilenceError(SilenceError):
    """There is no silence with that id."""

    def __init__(self, identity: str) -> None:
        super().__init__("silence not found")
        self.identity = identity


@dataclass(frozen=True, slots=True)
class Limits:
    """How many silences there may be, expired ones included, and how large one may be as a row.

    Alertmanager has the same two and by default no bound; an agent on a node has one.
    """

    silences: int = 10_000
    silence_bytes: int = 64 << 10


class Silences:
    """Silences in SQLite. All methods may be called from any thread, and raise sqlite3.Error
    for what the disk refuses.

    A change has a connection of its own for as long as it takes, so that one that waits for the
    database's lock holds up nobody who only asks. In WAL mode a commit survives the death of the
    process. Expired silences are shown for `retention_ms`, then deleted at the next change.
    """  # noqa: D205 - one sentence

    def __init__(
        self, state: str | StateFile, retention_ms: int = RETENTION_MS, limits: Limits | None = None
    ) -> None:
        self._retention_ms = retention_ms
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._version = -1
        self._index = SilenceIndex(())
        self._file = StateFile.of(state)
        self._file.prepare(rows.create_tables)
        self._file.merges.append(rows.take_newer)
        self._reader = StateConnection(self._file)

    def add(self, wanted: Silence, now_ms: int) -> Silence:
        """Store a new silence (`id` ""), or change the one that has its id; returns what it became.

        A change that would rewrite history makes a new silence with a new id and ends the old one.
        Raises UnknownSilenceError, and SilenceError for one that cannot be or that is too much.
        """
        with self._changing(now_ms) as connection:
            previous = None
            if wanted.id:
                previous = rows.read_silence(connection, wanted.id, self._kept_after(now_ms))
                if previous is None:
                    raise UnknownSilenceError(wanted.id)
            made = changed(previous, wanted, now_ms, str(uuid.uuid4()))
            if made[-1].id != wanted.id:
                self._check_room(connection)
            self._check_size(made[-1])
            for one in made:
                rows.write_silence(connection, one)
        return made[-1]

    def expire(self, identity: str, now_ms: int) -> Silence:
        """End a silence now; one that has ended stays as it is. Raises UnknownSilenceError."""
        with self._changing(now_ms) as connection:
            found = rows.read_silence(connection, identity, self._kept_after(now_ms))
            if found is None:
                raise UnknownSilenceError(identity)
            ended = expired(found, now_ms)
            rows.write_silence(connection, ended)
        return ended

    def get(self, identity: str, now_ms: int) -> Silence:
        """The silence with an id. Raises UnknownSilenceError."""
        for one in self.listed(now_ms):
            if one.id == identity:
                return one
        raise UnknownSilenceError(identity)

    def listed(self, now_ms: int) -> list[Silence]:
        """All of them, those that expired within the retention included, by id."""
        after_ms = self._kept_after(now_ms)
        return [one for one in self.current().silences if one.ends_at_ms > after_ms]

    def silencing(self, labels: Labels | Mapping[str, str], now_ms: int) -> tuple[str, ...]:
        """The ids of the silences that hold back an alert with these labels now, sorted.

        For many alerts at one time, take `current()` once and ask that.
        """
        return self.current().silencing(labels, now_ms)

    def current(self) -> SilenceIndex:
        """The silences as they are now, other processes' changes included; does not change."""
        with self._lock:
            reader = self._reader.now()
            version = rows.read_version(reader)
            if version != self._version:
                reader.execute("BEGIN")
                try:
                    version = rows.read_version(reader)
                    self._index = SilenceIndex(rows.read_silences(reader, -1))
                finally:
                    reader.execute("COMMIT")
                self._version = version
            return self._index

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._reader.close()

    def _check_room(self, connection: sqlite3.Connection) -> None:
        (count,) = connection.execute("SELECT count(*) FROM notify_silence").fetchone()
        if count + 1 > self._limits.silences:
            raise SilenceError(
                f"exceeded maximum number of silences: {count} (limit: {self._limits.silences})"
            )

    def _check_size(self, silence: Silence) -> None:
        size = sum(len(str(part).encode()) for part in rows.row_of(silence))
        if size > self._limits.silence_bytes:
            raise SilenceError(
                f"silence exceeded maximum size: {size} bytes"
                f" (limit: {self._limits.silence_bytes} bytes)"
            )

    def _kept_after(self, now_ms: int) -> int:
        return now_ms - self._retention_ms

    @contextmanager
    def _changing(self, now_ms: int) -> Iterator[sqlite3.Connection]:
        """A transaction that also forgets what is past its retention."""
        # Whoever was told that a silence is stored must find it after a power cut too.
        own = StateConnection(self._file, "FULL")
        with closing(own), own.writing() as connection:
            connection.execute(
                "DELETE FROM notify_silence WHERE ends_at_ms <= ?", (self._kept_after(now_ms),)
            )
            yield connection
            connection.execute("UPDATE notify_silence_version SET version = version + 1")
