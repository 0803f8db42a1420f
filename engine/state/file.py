"""Where state.db is: on the disk, or in memory for as long as the disk will not have it.

A disk that is full or read-only, a file that is damaged, deleted or locked by somebody else: none
of these may keep an alert from going out. Whoever meets such an error says so here, and the file
moves into memory as it is; all go on there, with the same rows. When the disk takes it again it
goes back.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engine.state import losses
from engine.state.connection import committing, connect
from engine.state.salvage import is_sound, salvage, tables
from engine.state.shelter import drop_shelter, make_shelter

if TYPE_CHECKING:
    from collections.abc import Callable

LOGGER = logging.getLogger(__name__)
# How often the disk is asked whether it takes the state again.
RETURN_SECONDS = 5.0
# How often the file is checked for damage, and of how many seconds a check may take one.
CHECK_SECONDS = 60.0
CHECK_RATIO = 200.0
# What SQLite says of a file that is damaged, and of one that it cannot use. Whatever else it says
# is a mistake of ours, which a move would not mend.
_DAMAGE = ("malformed", "not a database", "could not decode", "unsupported file format")
_REFUSAL = ("full", "disk i/o error", "readonly", "unable to open", "locked", "locking protocol")
_SUFFIXES = ("", "-wal", "-shm")
# SQLITE_BUSY, SQLITE_LOCKED (sqlite3.h).
_BUSY = (5, 6)

Prepare: TypeAlias = "Callable[[sqlite3.Connection], object]"


class StateFile:
    """state.db, wherever it is. All methods may be called from any thread.

    `disk`: where it belongs. `lock`: held by whoever writes, so that no row is written while the
    file moves. `generation` grows with each move, `losses` with each that lost rows,
    the last of them at `lost`. `reason`: why it is in memory, "" while it is on the disk.
    `mended`: how often it had to be mended, by why.
    `listeners`: called after each move. `merges`: called with the file on the disk and the one in
    memory, before that takes its place. One that `may_move` False stays where it is, and what the
    disk refuses is the caller's to bear.
    """

    def __init__(self, disk: str | Path, *, may_move: bool = False) -> None:
        self.disk = Path(disk)
        self.lock = threading.RLock()
        self.generation = self.losses = 0
        self.lost = losses.Losses()
        self.reason = ""
        self.mended = dict.fromkeys(("damaged", "deleted", "newer"), 0)
        self.listeners: list[Callable[[], None]] = []
        self.merges: list[Callable[[sqlite3.Connection, sqlite3.Connection], None]] = []
        self._may_move = may_move
        self._present = self.disk
        self._prepared: list[Prepare] = [losses.make_tables]
        self._damaged: Path | None = None
        self._aside = ""
        self._version = 0
        self._keeper: sqlite3.Connection | None = None
        self._inodes: tuple[int, ...] = ()
        self._return_at = self._check_at = 0.0

    @classmethod
    def of(cls, place: str | Path | StateFile) -> StateFile:
        """The file itself; or one at a path, that stays there."""
        return place if isinstance(place, StateFile) else cls(place)

    @property
    def path(self) -> str:
        """Where it is now."""
        return str(self._present)

    @property
    def in_memory(self) -> bool:
        """Whether it has left the disk."""
        return self._present != self.disk

    def connect(self, synchronous: str = "NORMAL") -> sqlite3.Connection:
        """A connection to it where it is now. Raises sqlite3.Error."""
        synchronous = "OFF" if self.in_memory else synchronous
        return connect(self._present, synchronous, create=not self._may_move)

    def prepare(self, make_tables: Prepare) -> None:
        """Make tables, now and in each file that is begun anew. Raises sqlite3.Error.

        What a damaged file, that was set aside, has of them is taken over.
        """
        with self.lock, closing(self.connect()) as connection:
            before = set(tables(connection))
            make_tables(connection)
            self._prepared.append(make_tables)
            made = frozenset(tables(connection)) - before
            if self._damaged is not None and made:
                with closing(sqlite3.connect(self._damaged, timeout=0)) as damaged:
                    lost = salvage(damaged, connection, made)
                    self._count(lost, connection, at_start=True)

    def hold(self) -> None:
        """Keep it open: what is deleted can still be read. Raises sqlite3.Error."""
        with self.lock:
            self._let_go()
            self._keeper = keeper = self.connect()
            # A write, so that the file has its log beside it now.
            losses.make_tables(keeper)
            self._version = version_of(keeper)
            keeper.execute(f"PRAGMA user_version = {self._version}")
            self.lost = losses.last(keeper)
            self._inodes = _inodes(self._present)

    def recover_from(self, damaged: Path) -> None:
        """Take over what can be read of a file that was set aside, as tables are prepared."""
        self._damaged = damaged

    def begin_anew(self) -> None:
        """Nothing of what an earlier agent wrote can be read. Raises sqlite3.Error."""
        with self.lock, closing(self.connect()) as connection:
            self._count(frozenset({"all"}), connection, at_start=True)

    def is_in_place(self) -> bool:
        """Whether the path still leads to the file that is held."""
        return _inodes(self._present) == self._inodes

    def begin_in_memory(self, target: Path, reason: str) -> None:
        """Start there, for the disk has refused already."""
        self._present, self.reason = target, reason

    def refused(self, error: Exception, generation: int) -> bool:
        """The file of a generation gave this error; True: it has moved since."""
        with self.lock:
            if generation != self.generation:
                return True
            if not self._may_move or self._keeper is None:
                return False
            text = str(error).lower()
            if any(said in text for said in _DAMAGE) or not is_sound(self._keeper):
                return self._move(f"is damaged ({error})", "damaged")
            if self.in_memory or not any(said in text for said in _REFUSAL):
                return False
            return self._move(f"cannot be written ({error})", "")

    def look_after(self) -> None:
        """Notice that it was deleted, and put it back when the disk takes it again."""
        with self.lock:
            if self._keeper is None or not self._may_move:
                return
            if not self.is_in_place():
                self._move("was deleted or replaced", "deleted")
            elif time.monotonic() >= self._check_at:
                self._check()
            if self.in_memory and time.monotonic() >= self._return_at:
                self._soon()
                self._return()

    def _check(self) -> None:
        """Look for damage that no query has met: a lost entry of an index is just not found."""
        began = time.monotonic()
        try:
            with closing(self.connect()) as connection:
                sound = is_sound(connection)
        except sqlite3.DatabaseError as error:
            # One that is locked or cannot be opened shows at the next write.
            sound = isinstance(error, sqlite3.OperationalError)
        if not sound:
            self._move("is damaged", "damaged")
        took = time.monotonic() - began
        self._check_at = began + max(CHECK_SECONDS, CHECK_RATIO * took)

    def note(self, trouble: str) -> None:
        """It had to be mended."""
        self.mended[trouble] += 1

    def close(self) -> None:
        """Let it go. What is in memory goes to the disk; where that cannot be, it is left."""
        with self.lock:
            if self.in_memory and self._keeper is not None:
                self._return()
            self._let_go()

    def _move(self, what: str, trouble: str) -> bool:
        """Into memory; `trouble`: what has to be mended besides, "" where the file is sound."""
        left, keeper = self._present, self._keeper
        assert keeper is not None  # noqa: S101 - who calls has looked
        try:
            target = make_shelter(self.disk) / self.disk.name
            lost = self._copy(keeper, target)
        except (OSError, sqlite3.Error) as error:
            LOGGER.warning("%s %s, and memory does not take it either: %s", left, what, error)
            return False
        if trouble:
            self.note(trouble)
        if self.in_memory and left.parent != target.parent:
            drop_shelter(left.parent)
        self._become(target, f"{left} {what}")
        self._aside = {"damaged": "corrupt", "deleted": "replaced"}.get(trouble, "")
        LOGGER.warning(
            "%s %s%s; alert state and unsent messages live in memory (%s) until the disk takes "
            "them again",
            left,
            what,
            f", and of {', '.join(sorted(lost))} not all could be read" if lost else "",
            target,
        )
        if trouble:
            self._return_at = 0.0
        return True

    def _copy(self, source: sqlite3.Connection, target: Path) -> frozenset[str]:
        """All of it, or what can be read; the tables that are not complete."""
        with (
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
            suppress(sqlite3.Error),
        ):
            source.backup(copy, progress=_impatient)
            if is_sound(copy):
                copy.execute(f"PRAGMA user_version = {self._version + 1}")
                return frozenset()
        remove_database(target)
        with closing(connect(target, "OFF", create=True)) as copy:
            for make_tables in self._prepared:
                make_tables(copy)
            lost = salvage(source, copy)
            self._count(lost, copy)
            copy.execute(f"PRAGMA user_version = {self._version + 1}")
        return lost

    def _count(
        self, lost: frozenset[str], connection: sqlite3.Connection, *, at_start: bool = False
    ) -> None:
        if lost:
            self.losses += 1
            losses.note(connection, time.time_ns() // 1_000_000, at_start=at_start)
            self.lost = losses.last(connection)

    def lost_rows(self) -> None:
        """A row cannot be read although the file is sound. Raises sqlite3.Error."""
        with self.lock, closing(self.connect()) as connection:
            self._count(frozenset({"a row"}), connection)
        for listener in self.listeners:
            listener()

    def _return(self) -> None:
        """Put it back, whole or not at all."""
        left, keeper = self._present, self._keeper
        assert keeper is not None  # noqa: S101 - who calls has looked
        try:
            self.disk.parent.mkdir(parents=True, exist_ok=True)
            if self._aside:
                set_aside(self.disk, self._aside)
            with closing(connect(self.disk, "FULL", create=True)) as target:
                target.execute("PRAGMA busy_timeout = 0")
                with committing(target), suppress(sqlite3.OperationalError):
                    for merge in self.merges:
                        merge(target, keeper)
                keeper.backup(target, progress=_impatient)
        except (OSError, sqlite3.Error) as error:
            if any(said in str(error).lower() for said in _DAMAGE):
                self._aside = "corrupt"
            self.reason = f"{self.disk} cannot be written ({error})"
            return
        self._become(self.disk, "")
        drop_shelter(left.parent)
        LOGGER.warning("%s: can be written again, and has what was in memory", self.disk)

    def _become(self, path: Path, reason: str) -> None:
        self._present, self.reason, self._aside = path, reason, ""
        self.generation += 1
        self.hold()
        for listener in self.listeners:
            listener()
        self._soon()

    def _soon(self) -> None:
        self._return_at = time.monotonic() + RETURN_SECONDS

    def _let_go(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()


def version_of(connection: sqlite3.Connection) -> int:
    """How many moves the file has seen: of two, the higher one is the present."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def remove_database(path: Path) -> None:
    """The file and what SQLite keeps beside it. Raises OSError."""
    for suffix in _SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def set_aside(path: Path, why: str) -> Path:
    """Rename the file and what SQLite keeps beside it; its new name. Raises OSError."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.{why}-{stamp}")
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def _impatient(status: int, _remaining: int, _total: int) -> None:
    """Python would wait for a lock without end."""
    if status in _BUSY:
        raise sqlite3.OperationalError("database is locked")


def _inodes(path: Path) -> tuple[int, ...]:
    """Of the file and its log; nothing of what is not there."""
    try:
        return tuple(path.with_name(path.name + suffix).stat().st_ino for suffix in ("", "-wal"))
    except OSError:
        return ()
