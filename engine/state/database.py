"""The database file: opened whatever its condition, written in one transaction an evaluation."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from engine.state.rows import (
    SCHEMA,
    VERSION,
    read_evaluations,
    read_groups,
    write_evaluation,
    write_rule,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.alerts.alert import Alert
    from engine.rulegroup.state import GroupState, RuleKey, RuleState
    from engine.series import Sample
    from engine.state.rows import Evaluation

LOGGER = logging.getLogger(__name__)
BUSY_TIMEOUT_SECONDS = 5.0
# Alerts whose transaction failed and that wait for the next one.
MAX_BACKLOG = 10_000


class StateDb:
    """state.db. Made by `open`, which never fails for what the disk is like.

    `path` is the file in use, for others who keep their tables in it. `durable` is False where
    it had to be a temporary one. `notices` say what was found. `failed_total` counts
    transactions that the disk refused. All methods may be called from any thread.

    WAL with synchronous=NORMAL: a commit survives the death of the process, kill -9 included.
    Losing power may lose the last commits, never half of one; alert state and outbox go back
    together, so that the worst is a message sent again. FULL would cost the node an fsync at every
    evaluation to win only that.
    """

    def __init__(self, path: Path, notices: Sequence[str] = (), *, durable: bool = True) -> None:
        """Use `open`. Raises sqlite3.Error if the file cannot be used."""
        self.path = str(path)
        self.notices = tuple(notices)
        self.durable = durable
        self.failed_total = 0
        self._lock = threading.RLock()
        self._backlog: list[Alert] = []
        self._saved: dict[tuple[str, str], dict[RuleKey, RuleState]] = {}
        self._connection = _connect(path)
        self._inode = path.stat().st_ino
        self._refused = False

    @property
    def up(self) -> bool:
        """Whether the last commit is on disk, in a file that the next start will find."""
        return self.durable and not self._refused and self._in_place()

    def _in_place(self) -> bool:
        try:
            return Path(self.path).stat().st_ino == self._inode
        except OSError:
            return False

    @classmethod
    def open(cls, path: str | Path) -> StateDb:
        """Open or make the file; its folder is made too.

        A file that is not a sound database, or that a newer stallwatch wrote, is set aside beside
        it (`state.db.corrupt-...`, `state.db.newer-...`) and a new one is begun. Where nothing can
        be written the state lives in memory, until the process ends. Each is a notice.
        """
        path = Path(path)
        notices: list[str] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            reason = _why_unusable(path)
            if reason:
                aside = _set_aside(path, "newer" if "newer" in reason else "corrupt")
                notices.append(f"{path}: {reason}; set aside as {aside.name}, starting anew")
            return cls(path, notices)
        except (OSError, sqlite3.Error) as error:
            temporary = _temporary_folder() / path.name
            notices.append(
                f"{path}: cannot be written ({error}); alert state and unsent messages live in "
                f"memory ({temporary}) and will not survive a restart"
            )
            return cls(temporary, notices, durable=False)
        finally:
            for notice in notices:
                LOGGER.warning(notice)

    def load(self) -> dict[tuple[str, str], GroupState]:
        """Every group's state as last saved, by (file, group name).

        The caller applies `after_downtime` with the time it starts at.
        """
        with self._lock:
            try:
                groups = read_groups(self._connection)
            except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
                self._failed("cannot be read, alert state starts anew", error)
                return {}
            self._saved = {key: dict(state.rules) for key, state in groups.items()}
            return groups

    def evaluations(self) -> list[Evaluation]:
        """Each group's last committed evaluation, for a recording that a kill cut short."""
        with self._lock:
            try:
                return read_evaluations(self._connection)
            except (sqlite3.Error, ValueError, TypeError) as error:
                self._failed("the last evaluations cannot be read", error)
                return []

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction: commits at the end, rolls back if the body raises.

        Raises sqlite3.Error for what the disk refuses; `commit` is the form that does not.
        """
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def save(self, connection: sqlite3.Connection, state: GroupState) -> None:
        """Write what changed in a group since it was last saved, inside a transaction."""
        file, group = key = (state.file, state.group)
        connection.execute(
            "INSERT OR REPLACE INTO rule_group VALUES (?, ?, ?)",
            (file, group, state.last_evaluation_ms),
        )
        saved = self._saved.get(key, {})
        for rule, after in state.rules.items():
            if saved.get(rule) != after:
                write_rule(connection, file, group, rule, after)
        for rule in saved.keys() - state.rules.keys():
            connection.execute(
                "DELETE FROM rule_state WHERE file = ? AND group_name = ? AND rule = ?"
                " AND rule_labels = ? AND ordinal = ?",
                (file, group, rule.name, rule.labels, rule.ordinal),
            )

    def forget(self, connection: sqlite3.Connection, file: str, group: str) -> None:
        """Drop a group that no rule file has any more."""
        connection.execute("DELETE FROM rule_group WHERE file = ? AND name = ?", (file, group))
        connection.execute(
            "DELETE FROM rule_state WHERE file = ? AND group_name = ?", (file, group)
        )
        connection.execute(
            "DELETE FROM last_evaluation WHERE file = ? AND group_name = ?", (file, group)
        )
        self._saved.pop((file, group), None)

    def commit(
        self,
        states: Sequence[GroupState],
        alerts: Sequence[Alert],
        enqueue: Callable[[sqlite3.Connection, Sequence[Alert]], None] | None = None,
        *,
        gone: Sequence[tuple[str, str]] = (),
        samples: Sequence[Sample] | None = None,
    ) -> bool:
        """Save groups and hand their alerts to the outbox, all of it or nothing.

        `gone`: (file, name) of groups that no rule file has any more, to be forgotten.
        `samples`: what the evaluation of the one group in `states` wrote (see `evaluations`).

        What the disk refuses (full, read-only, locked) is logged and counted, the alerts are kept
        for the next commit, and False is returned: evaluation goes on.
        """
        with self._lock:
            owed = [*self._backlog, *alerts]
            try:
                with self.transaction() as connection:
                    for state in states:
                        self.save(connection, state)
                        if samples is not None:
                            write_evaluation(connection, state, samples)
                    for file, group in gone:
                        self.forget(connection, file, group)
                    if owed and enqueue is not None:
                        enqueue(connection, owed)
            except sqlite3.Error as error:
                self._backlog = owed[-MAX_BACKLOG:]
                self._failed(
                    "cannot be written, trying again at each evaluation", error, again=self._refused
                )
                self._refused = True
                return False
            if self._refused:
                LOGGER.warning("%s: can be written again", self.path)
            self._backlog = []
            self._refused = False
            for state in states:
                self._saved[state.file, state.group] = dict(state.rules)
            return True

    @property
    def backlog(self) -> int:
        """Alerts that wait for a commit to succeed."""
        return len(self._backlog)

    def close(self) -> None:
        """Close the file; a temporary one is removed."""
        with self._lock:
            self._connection.close()
            if not self.durable:
                shutil.rmtree(Path(self.path).parent, ignore_errors=True)

    def _failed(self, what: str, error: Exception, *, again: bool = False) -> None:
        """Count it, and say so unless that was said `again` and again."""
        self.failed_total += 1
        if not again:
            LOGGER.warning("%s: %s: %s", self.path, what, error)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(SCHEMA)
        # A write even where the tables exist: now is the time to learn that it is refused.
        connection.execute("INSERT OR REPLACE INTO alert_schema VALUES (1, ?)", (VERSION,))
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _why_unusable(path: Path) -> str:
    """What is wrong with the file, empty if nothing is. Raises OSError if it is unreadable."""
    if not path.exists() or not path.stat().st_size:
        return ""
    with path.open("rb"):
        pass
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS)) as connection:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            known = connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE name = 'alert_schema'"
            ).fetchone()[0]
            version = (
                connection.execute("SELECT max(version) FROM alert_schema").fetchone()[0]
                if known
                else VERSION
            )
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        return f"not a sound database ({error})"
    if verdict != "ok":
        return f"not a sound database ({verdict})"
    if version > VERSION:
        return f"written by a newer stallwatch (schema {version}, this one knows {VERSION})"
    return ""


def _set_aside(path: Path, why: str) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.{why}-{stamp}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def _temporary_folder() -> Path:
    """A folder in memory where the machine has one, else the ordinary temporary place."""
    memory = "/dev/shm"  # noqa: S108 - mkdtemp makes a private folder in it
    place = memory if os.access(memory, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="stallwatch-", dir=place))
