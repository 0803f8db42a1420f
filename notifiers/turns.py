"""A thread that takes turns at a database until it is told to stop, and outlives whatever fails."""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from notifiers.trouble import Trouble

logger = logging.getLogger(__name__)

STORAGE_RETRY_SECONDS = 1.0
FAULT_RETRY_SECONDS = 10.0


class Database(Protocol):
    """What a turn works with: a connection, or what holds one."""

    def refused(self, error: Exception) -> bool:
        """It gave this error; True: the file has moved since, and the same is worth a try."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


DatabaseT = TypeVar("DatabaseT", bound=Database)


class Turns(Generic[DatabaseT]):
    """Calls `turn` again and again; it returns for how many seconds there is nothing to do.

    `open_database` is called in the thread, before the first turn. `begin_anew` is called after a
    fault that is none of the database's. `trouble` tells both kinds, once each.
    """

    def __init__(
        self,
        name: str,
        open_database: Callable[[], DatabaseT],
        turn: Callable[[DatabaseT], float],
        trouble: Trouble,
        begin_anew: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._open_database = open_database
        self._turn = turn
        self._trouble = trouble
        self._begin_anew = begin_anew
        self._stopping = self._woken = False
        self._condition = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def ask_to_stop(self) -> None:
        """Begin no further turn; the one under way may end."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread; False when its turn still goes on."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def insist(self, database: DatabaseT, write: Callable[[], object]) -> None:
        """Write within a turn, again and again while the database refuses, until asked to stop."""
        while True:
            try:
                write()
            except sqlite3.Error as error:
                if database.refused(error):
                    continue
                self._trouble.met(error)
            else:
                return
            with self._condition:
                if self._stopping:
                    return
                self._condition.wait(STORAGE_RETRY_SECONDS)

    def _run(self) -> None:
        database: DatabaseT | None = None
        while self._go_on():
            try:
                database = database or self._open_database()
                seconds = self._turn(database)
            except sqlite3.Error as error:
                seconds = self._refused(database, error)
            except Exception as error:
                # Without this thread somebody would hear of nothing any more.
                if self._trouble.met(error):
                    logger.exception("%s has failed", self._name)
                if self._begin_anew is not None:
                    self._begin_anew()
                # A value of the wrong kind may come of a damaged file.
                moved = database is not None and database.refused(error)
                seconds = 0.0 if moved else FAULT_RETRY_SECONDS
            else:
                self._trouble.over()
            with self._condition:
                self._condition.wait_for(lambda: self._stopping or self._woken, max(0.0, seconds))
        if database is not None:
            database.close()

    def _refused(self, database: DatabaseT | None, error: sqlite3.Error) -> float:
        if database is not None and database.refused(error):
            return 0.0
        self._trouble.met(error)
        return STORAGE_RETRY_SECONDS

    def _go_on(self) -> bool:
        with self._condition:
            self._woken = False
            return not self._stopping
