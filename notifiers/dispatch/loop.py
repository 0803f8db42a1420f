"""The dispatcher's thread: alerts from state.db in, messages into the outbox.

What a turn did is written in one transaction: a kill before it leaves the turn to be done again,
with the same messages under the same ids; a kill after it leaves them in the outbox.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from engine.state.connection import StateConnection
from engine.state.file import StateFile
from notifiers import outbox
from notifiers.acknowledgements import read_acknowledged
from notifiers.dead_letters import drop_told, read_told
from notifiers.dispatch import budget_rows, flap_rows, rescue, tables
from notifiers.dispatch.deduplication import not_told, told_again
from notifiers.refusals import drop_refusals, refusals
from notifiers.trouble import Trouble
from notifiers.turns import Turns
from rules.slotted import dataclass

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from notifiers.dispatch.dispatcher import Dispatcher, Flushed
    from notifiers.dispatch.group import Group, Timer
    from notifiers.dispatch.log import NotificationLog

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a turn did, until it is on the disk. `sequence`: of the newest alert that it knew."""

    sequence: int
    groups: tuple[Group, ...]
    flushed: Flushed


class DispatchLoop:
    """`step` does one turn; `start` runs turns in a thread.

    `open_dispatcher`: makes the dispatcher of a log and the timers of an earlier process. `wake`:
    called when messages were put into the outbox. `clock`: unix milliseconds.
    """

    def __init__(
        self,
        state: str | StateFile,
        open_dispatcher: Callable[[NotificationLog, Mapping[str, Timer]], Dispatcher],
        wake: Callable[[], None],
        clock: Callable[[], int],
    ) -> None:
        self._open_dispatcher = open_dispatcher
        self._wake_workers = wake
        self._clock = clock
        self._dispatcher: Dispatcher | None = None
        self._log: NotificationLog | None = None
        self._sequence = self._refused_up_to = self._resent_up_to = 0
        self._unsaved: _Turn | None = None
        # What was in memory before a turn broke off, in case that the database lost it.
        self._remembered: tuple[Dispatcher, NotificationLog] | None = None
        self._losses = 0
        file = StateFile.of(state)
        trouble = Trouble(logger, "the dispatcher's tables cannot be used")
        self._turns = Turns(
            "the dispatcher",
            partial(StateConnection, file, "FULL"),
            self.step,
            trouble,
            self._forget_turn,
        )
        # Held while a turn is made, and by who looks at the groups.
        self.lock = threading.Lock()

    @property
    def dispatcher(self) -> Dispatcher | None:
        """What there is to see of the groups, under `lock`; None before the first turn."""
        return self._dispatcher

    def start(self) -> None:
        """Run in a thread of its own."""
        self._turns.start()

    def wake(self) -> None:
        """There are alerts, or somebody has changed a silence."""
        self._turns.wake()

    def stop(self, timeout_seconds: float) -> None:
        """Finish the turn under way, then end."""
        self._turns.ask_to_stop()
        self._turns.join(timeout_seconds)

    def step(self, database: StateConnection) -> float:
        """One turn; returns for how many seconds there is nothing to do. Raises sqlite3.Error."""
        if self._losses != database.file.losses:
            self._rescue(database)
        if self._unsaved is not None:
            self._save(database, self._unsaved)
        now_ms = self._clock()
        with self.lock:
            try:
                dispatcher, log = self._opened(database, now_ms)
                self._unsaved, due_ms = self._turn(database.now(), dispatcher, log, now_ms)
            except BaseException:
                # Half a turn is in memory and would pass for a whole one: what it took for told
                # nobody was told.
                self._begin_anew()
                raise
        self._save(database, self._unsaved)
        if due_ms is None:
            return IDLE_SECONDS
        # Saving took its time: counted from the turn's start, each turn would delay the next one.
        return min(IDLE_SECONDS, (due_ms - self._clock()) / 1000)

    def _turn(
        self,
        connection: sqlite3.Connection,
        dispatcher: Dispatcher,
        log: NotificationLog,
        now_ms: int,
    ) -> tuple[_Turn, int | None]:
        self._take_refused(connection, log, now_ms)
        self._sequence, alerts = tables.alerts_since(connection, self._sequence)
        # Not before alerts are read: one that ended after it was told again has to find it told.
        self._take_resent(connection, log, now_ms)
        dispatcher.acknowledged = read_acknowledged(connection)
        touched = dispatcher.take(alerts, now_ms)
        flushed = dispatcher.flush(now_ms)
        turn = _Turn(self._sequence, (*touched, *flushed.spoke), flushed)
        return turn, dispatcher.next_ms()

    def _begin_anew(self) -> None:
        """Forget what is in memory; the next turn begins from what is on the disk."""
        self._remember()
        self._dispatcher = self._log = self._unsaved = None
        self._sequence = 0

    def _remember(self) -> None:
        if self._remembered is None and self._dispatcher is not None and self._log is not None:
            self._remembered = self._dispatcher, self._log

    def _opened(self, database: StateConnection, now_ms: int) -> tuple[Dispatcher, NotificationLog]:
        if self._dispatcher is None or self._log is None:
            connection = database.now()
            self._log = tables.read_log(connection, now_ms)
            self._dispatcher = self._open_dispatcher(self._log, tables.timers(connection))
            lost = database.file.lost
            self._log.doubted_ms, self._log.forgotten_ms = lost.at_ms, lost.at_start_ms
            if self._dispatcher.flaps is not None:
                self._dispatcher.flaps.restore(flap_rows.read_courses(connection))
            limiter = self._dispatcher.limiter
            limiter.restore(budget_rows.read_budgets(connection, limiter.limits, now_ms))
        return self._dispatcher, self._log

    def _take_refused(
        self, connection: sqlite3.Connection, log: NotificationLog, now_ms: int
    ) -> None:
        refused = refusals(connection)
        for one in refused:
            entry = log.entry(one.group_key, one.integration)
            if entry is not None and one.firing:
                after = not_told(entry, one.unheard, now_ms)
                log.write(one.group_key, one.integration, after)
        self._refused_up_to = refused[-1].sequence if refused else 0

    def _take_resent(
        self, connection: sqlite3.Connection, log: NotificationLog, now_ms: int
    ) -> None:
        resent = read_told(connection)
        for one in resent:
            entry = log.entry(one.group_key, one.integration)
            log.write(one.group_key, one.integration, told_again(entry, one, now_ms))
        self._resent_up_to = resent[-1].sequence if resent else 0

    def _save(self, database: StateConnection, turn: _Turn) -> None:
        log, dispatcher, flushed = self._log, self._dispatcher, turn.flushed
        done = turn.groups or flushed.messages or flushed.gone or flushed.settled
        if log is None or dispatcher is None or not (done or log.changed or dispatcher.changed):
            self._unsaved = self._remembered = None
            return
        now_ms = self._clock()
        with database.writing() as connection:
            for message in flushed.messages:
                outbox.add(connection, message, now_ms)
            tables.save_log(connection, log)
            if dispatcher.flaps is not None:
                flap_rows.save_courses(connection, dispatcher.flaps)
            budget_rows.save_budgets(connection, dispatcher.limiter)
            tables.put_timers(connection, turn.groups)
            tables.drop_timers(connection, flushed.gone)
            tables.drop_alerts(connection, flushed.settled, turn.sequence)
            drop_refusals(connection, self._refused_up_to)
            drop_told(connection, self._resent_up_to)
        log.saved()
        dispatcher.saved()
        self._unsaved = self._remembered = None
        if flushed.messages:
            self._wake_workers()

    def _rescue(self, database: StateConnection) -> None:
        """The database lost rows: write what is in memory, and begin anew from both."""
        now_ms, losses = self._clock(), database.file.losses
        with self.lock, database.writing() as connection:
            self._remember()
            if self._remembered is not None:
                rescue.write_again(connection, *self._remembered)
            for message in () if self._unsaved is None else self._unsaved.flushed.messages:
                outbox.add(connection, message, now_ms)
            rescue.doubt(connection, now_ms)
        self._begin_anew()
        self._remembered, self._losses = None, losses

    def _forget_turn(self) -> None:
        with self.lock:
            self._begin_anew()
