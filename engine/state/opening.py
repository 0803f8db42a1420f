"""The state file at a start: as it is, mended, or in memory; whatever the disk is like."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from engine.state.connection import connect
from engine.state.file import StateFile, remove_database, set_aside, version_of
from engine.state.rows import SCHEMA, VERSION
from engine.state.salvage import is_sound
from engine.state.shelter import drop_shelter, left_in_memory, make_shelter

if TYPE_CHECKING:
    from pathlib import Path

LOGGER = logging.getLogger(__name__)


def open_state_file(path: Path) -> tuple[StateFile, tuple[str, ...]]:
    """The file, its own tables made, and what was found, in sentences that are logged too.

    A file that is not sound is set aside and what can be read of it is taken over; so is one that a
    newer stallwatch wrote, and nothing of it is read. A recording without the state that belongs to
    it says that there was one. What a killed agent left in memory, since the
    disk did not take it, is newer than the file on the disk and goes before it.
    """
    file = StateFile(path, may_move=True)
    notices: list[str] = []
    try:
        is_lost = False
        if not _found_in_memory(file, notices):
            path.parent.mkdir(parents=True, exist_ok=True)
            is_lost = _mend(file, notices)
            connect(path, create=True).close()
        _begin(file, is_lost=is_lost)
    except (OSError, sqlite3.Error) as error:
        # What an earlier agent left in memory is newer than what the disk has.
        was_left = file.in_memory
        file = StateFile(path, may_move=True)
        is_lost = _begin_in_memory(file, str(error), notices)
        _begin(file, is_lost=was_left or is_lost)
    file.look_after()
    for notice in notices:
        LOGGER.warning(notice)
    return file, tuple(notices)


def _begin(file: StateFile, *, is_lost: bool) -> None:
    file.prepare(_make_tables)
    if is_lost:
        file.begin_anew()
    file.hold()


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(SCHEMA)
    # A write even where the tables exist: now is the time to learn that it is refused.
    connection.execute("INSERT OR REPLACE INTO alert_schema VALUES (1, ?)", (VERSION,))


def _found_in_memory(file: StateFile, notices: list[str]) -> bool:
    left = left_in_memory(file.disk)
    if left is None:
        return False
    if _version(left) <= _version(file.disk):
        # It was put back, and the agent was killed before it could remove it.
        drop_shelter(left.parent)
        return False
    file.begin_in_memory(left, f"{file.disk} could not be written when the last agent ended")
    notices.append(
        f"{file.disk}: what an earlier agent could not write there was in memory ({left})"
    )
    return True


def _version(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0)) as connection:
            return version_of(connection)
    except sqlite3.Error:
        return -1


def _mend(file: StateFile, notices: list[str]) -> bool:
    """True: there was a state, and nothing of it is read.

    Raises OSError and sqlite3.Error for what the disk refuses.
    """
    reason = why_unusable(file.disk)
    if not reason:
        return _is_bereft(file, notices)
    is_newer = "newer" in reason
    aside = set_aside(file.disk, "newer" if is_newer else "corrupt")
    what = "starting anew" if is_newer else "what can be read of it is taken over"
    notices.append(f"{file.disk}: {reason}; set aside as {aside.name}, {what}")
    file.note("newer" if is_newer else "damaged")
    if not is_newer:
        file.recover_from(aside)
    return is_newer


def _is_bereft(file: StateFile, notices: list[str]) -> bool:
    """Whether there is a recording, of an earlier agent, without its state."""
    is_there = file.disk.exists()
    if (is_there and file.disk.stat().st_size) or not _has_recording(file.disk):
        return False
    notices.append(
        f"{file.disk}: {'empty' if is_there else 'not there'}, although there is a recording beside"
        " it; alert state starts anew, and what fires is told as a possible repeat"
    )
    if is_there:
        file.note("damaged")
    return True


def _has_recording(disk: Path) -> bool:
    try:
        return any((disk.parent / "recording").iterdir())
    except OSError:
        return False


def why_unusable(path: Path) -> str:
    """What is wrong with the file, empty if nothing is. Raises OSError if it is unreadable."""
    if not path.exists() or not path.stat().st_size:
        return ""
    with path.open("rb"):
        pass
    try:
        with closing(sqlite3.connect(path, timeout=0)) as connection:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                return f"not a sound database ({verdict})"
            known = "SELECT count(*) FROM sqlite_master WHERE name = 'alert_schema'"
            version: object = VERSION
            if connection.execute(known).fetchone()[0]:
                (version,) = connection.execute("SELECT max(version) FROM alert_schema").fetchone()
            if isinstance(version, int) and version > VERSION:
                return f"written by a newer stallwatch (schema {version}, this one knows {VERSION})"
            return "" if is_sound(connection) else "not a sound database (values of a wrong type)"
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        return f"not a sound database ({error})"


def _begin_in_memory(file: StateFile, why: str, notices: list[str]) -> bool:
    """With what the disk has, if it can be read; True: it has something, or may, that cannot.

    Raises OSError where memory is refused too.
    """
    disk = file.disk
    target = make_shelter(disk) / disk.name
    with suppress(OSError):
        for suffix in ("", "-wal"):
            shutil.copyfile(
                disk.with_name(disk.name + suffix), target.with_name(target.name + suffix)
            )
    is_lost = not (target.exists() and target.stat().st_size) and _may_have_state(disk)
    try:
        reason = why_unusable(target)
    except sqlite3.Error as error:
        reason = str(error)
    if "newer" in reason:
        is_lost = True
        remove_database(target)
    elif reason:
        file.note("damaged")
        file.recover_from(set_aside(target, "corrupt"))
    else:
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            copy.execute(f"PRAGMA user_version = {version_of(copy) + 1}")
    connect(target, create=True).close()
    file.begin_in_memory(target, f"{disk} cannot be written ({why})")
    notices.append(
        f"{disk}: cannot be written ({why}); alert state and unsent messages live in memory"
        f" ({target}) until it can"
    )
    return is_lost


def _may_have_state(disk: Path) -> bool:
    try:
        disk.lstat()
    except FileNotFoundError:
        return _has_recording(disk)
    except OSError:
        pass
    return True
