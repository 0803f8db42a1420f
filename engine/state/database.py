"""Alert state in state.db, written in one transaction an evaluation."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.rulegroup.state import firing_alerts
from engine.state.connection import StateConnection
from engine.state.opening import open_state_file
from engine.state.rows import read_evaluations, read_groups, write_evaluation, write_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.alerts.alert import Alert
    from engine.rulegroup.state import GroupState, RuleKey, RuleState
    from engine.series import Sample
    from engine.state.file import StateFile
    from engine.state.rows import Evaluation

LOGGER = logging.getLogger(__name__)
# Alerts whose transaction failed and that wait for the next one.
MAX_BACKLOG = 10_000


class StateDb:
    """Alert state in state.db. Made by `open`, which never fails for what the disk is like.

    `file`: where it is, for others who keep their tables in it. `notices` say what was found at the
    start. `failed_total` counts transactions that were refused, on the disk or in memory. All
    methods may be called from any thread.

    WAL with synchronous=NORMAL: a commit survives the death of the process, kill -9 included.
    Losing power may lose the last commits, never half of one; alert state and outbox go back
    together, so that the worst is a message sent again. FULL would cost the node an fsync at every
    evaluation to win only that.
    """

    def __init__(self, file: StateFile, notices: Sequence[str] = ()) -> None:
        """Use `open`."""
        self.file = file
        self.notices = tuple(notices)
        self.failed_total = 0
        self._backlog: list[Alert] = []
        self._saved: dict[tuple[str, str], dict[RuleKey, RuleState]] = {}
        self._connection = StateConnection(file)
        self._generation = file.generation
        # Losses of rows that are seen to, and the groups whose alerts were told again since.
        self._losses = 0
        self._told_again: set[tuple[str, str]] = set()
        self._refused = False

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self.file.path

    @property
    def durable(self) -> bool:
        """Whether it is on the disk."""
        return not self.file.in_memory

    @property
    def up(self) -> bool:
        """Whether the last commit is on disk, in a file that the next start will find."""
        return self.durable and not self._refused and self.file.is_in_place()

    @classmethod
    def open(cls, path: str | Path) -> StateDb:
        """Open or make the file; its folder is made too (see `open_state_file`)."""
        return cls(*open_state_file(Path(path)))

    def load(self) -> dict[tuple[str, str], GroupState]:
        """Every group's state as last saved, by (file, group name).

        The caller applies `after_downtime` with the time it starts at.
        """
        with self.file.lock:
            try:
                groups = read_groups(self._connection.now())
            except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
                self._failed("cannot be read, alert state starts anew", error)
                return {}
            self._saved = {key: dict(state.rules) for key, state in groups.items()}
            return groups

    def evaluations(self) -> list[Evaluation]:
        """Each group's last committed evaluation, for a recording that a kill cut short."""
        with self.file.lock:
            try:
                return read_evaluations(self._connection.now())
            except (sqlite3.Error, ValueError, TypeError) as error:
                self._failed("the last evaluations cannot be read", error)
                return []

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction: commits at the end, rolls back if the body raises.

        Raises sqlite3.Error for what the file refuses; `commit` is the form that does not.
        """
        with self._connection.writing() as connection:
            yield connection

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

        A file that refuses moves into memory, where this is done again. What is refused there too
        is logged and counted, the alerts are kept for the next commit, and False is returned:
        evaluation goes on.
        """
        with self.file.lock:
            self.file.look_after()
            owed = [*self._backlog, *alerts]
            try:
                try:
                    self._write(states, owed, enqueue, gone, samples)
                except sqlite3.Error as error:
                    if not self._connection.refused(error):
                        raise
                    self._write(states, owed, enqueue, gone, samples)
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
                self._told_again.add((state.file, state.group))
            return True

    def _write(
        self,
        states: Sequence[GroupState],
        owed: Sequence[Alert],
        enqueue: Callable[[sqlite3.Connection, Sequence[Alert]], None] | None,
        gone: Sequence[tuple[str, str]],
        samples: Sequence[Sample] | None,
    ) -> None:
        with self.transaction() as connection:
            if self._generation != self.file.generation:
                # What a damaged file lost is written again, and what it has does no harm.
                self._generation = self.file.generation
                self._saved.clear()
            if self._losses != self.file.losses:
                self._losses = self.file.losses
                self._told_again.clear()
            for state in states:
                self.save(connection, state)
                if samples is not None:
                    write_evaluation(connection, state, samples)
                if self._losses and (state.file, state.group) not in self._told_again:
                    # What the outbox was told of them may be lost.
                    owed = [*firing_alerts(state.rules.values()), *owed]
            for file, group in gone:
                self.forget(connection, file, group)
            if owed and enqueue is not None:
                enqueue(connection, owed)

    @property
    def backlog(self) -> int:
        """Alerts that wait for a commit to succeed."""
        return len(self._backlog)

    def close(self) -> None:
        """Close the file."""
        with self.file.lock:
            self._connection.close()
            self.file.close()

    def _failed(self, what: str, error: Exception, *, again: bool = False) -> None:
        """Count it, and say so unless that was said `again` and again."""
        self.failed_total += 1
        if not again:
            LOGGER.warning("%s: %s: %s", self.path, what, error)
