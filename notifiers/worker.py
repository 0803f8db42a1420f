"""One integration's thread: takes due rows from the outbox and sends them, one at a time."""

from __future__ import annotations

import logging
import sqlite3
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from notifiers.backoff import Backoff
from notifiers.origin import Origin
from notifiers.outbox import LONGEST_WAIT_MS, Outbox
from notifiers.receivers.receiver import SendError
from notifiers.trouble import Trouble
from notifiers.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.state.file import StateFile
    from notifiers.dispatch.limiting import RateLimit
    from notifiers.entry import Entry
    from notifiers.notification import Notification
    from notifiers.pictures.picture import Pictures
    from notifiers.receivers.receiver import Target
    from notifiers.upkeep import Upkeep

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
PRUNE_MS = 3_600_000


def unix_ms() -> int:
    """The wall clock: rows outlive the process, so a monotonic one would not do."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What workers share: how they wait, by which clock (unix milliseconds), and who sends."""

    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], int] = unix_ms
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True)
class Integration:
    """Where rows with `key` go. `kind` and `receiver` label the metrics.

    `upkeep`: what is done between messages. `hears` False: it is told of no alert.
    `timeout_seconds` bounds one attempt; a row that is older than `max_retry_age_seconds` when
    an attempt fails is given up. `limit`: how many messages are made for it; None: any number.
    `pictures`: what draws for its target.
    """

    key: str
    receiver: str
    kind: str
    target: Target
    send_resolved: bool = True
    upkeep: Upkeep | None = None
    hears: bool = True
    timeout_seconds: float = 10.0
    max_retry_age_seconds: float = 86_400.0
    limit: RateLimit | None = None
    pictures: Pictures | None = None


def send(integration: Integration, notification: Notification) -> None:
    """Hand a notification to an integration's target. Raises SendError, and nothing else."""
    try:
        integration.target.send(notification, integration.timeout_seconds)
    except SendError:
        raise
    except Exception as error:
        # A fault in a receiver (perhaps a third party's) must not end the thread. Its text may
        # hold a secret, so only its type is told.
        raise SendError("internal", f"internal error: {type(error).__name__}") from error


class Counters:
    """What an integration has done since start. Written by one thread, read by others."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed: dict[str, int] = {"rejected": 0, "expired": 0}
        self.retries: dict[str, int] = {}


class Worker:
    """Sends an integration's rows. `step` does one thing; `start` runs steps in a thread.

    Two clocks hold it back after a failure: the row's own (more with each of its attempts) and
    the integration's (more with each failure in a row), so that a dead receiver is asked rarely
    however many rows wait, and one bad row does not hold up the others.
    """

    def __init__(
        self, integration: Integration, state: str | StateFile, options: SendOptions
    ) -> None:
        self.integration = integration
        self.counters = Counters()
        # Called when a message was given up: who it told of nothing is owed nothing.
        self.on_refused: Callable[[], None] = _nothing
        self._options = options
        self._failures_in_a_row = 0
        self._resume_at_ms = 0
        self._prune_at_ms = 0
        self._begun = False
        self._trouble = Trouble(logger, f"the outbox of {integration.key} cannot be used")
        name = f"notify {integration.key}"
        self._turns = Turns(name, partial(Outbox, state), self.step, self._trouble)

    def start(self) -> None:
        """Run in a thread of its own."""
        self._turns.start()

    def wake(self) -> None:
        """There may be something new in the outbox."""
        self._turns.wake()

    def ask_to_stop(self) -> None:
        """Send nothing more; what is under way may end."""
        self._turns.ask_to_stop()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread; False when it is still sending."""
        return self._turns.join(timeout_seconds)

    def step(self, outbox: Outbox) -> float:
        """Send the next due row, if any. Returns for how many seconds there is nothing to do."""
        upkeep = self.integration.upkeep
        now_ms = self._options.clock()
        if upkeep is not None and not self._begun:
            outbox.read(lambda connection: upkeep.begin(connection, now_ms))
            self._begun = True
        seconds = self._send_next(outbox)
        if upkeep is None or seconds == 0:
            return seconds
        now_ms = self._options.clock()
        return min(seconds, outbox.read(lambda connection: upkeep.turn(connection, now_ms)))

    def _send_next(self, outbox: Outbox) -> float:
        now_ms = self._options.clock()
        if now_ms < self._resume_at_ms <= now_ms + LONGEST_WAIT_MS:
            return (self._resume_at_ms - now_ms) / 1000
        if now_ms >= self._prune_at_ms:
            outbox.prune(now_ms)
            self._prune_at_ms = now_ms + PRUNE_MS
        entry = outbox.due(self.integration.key, now_ms)
        if entry is None:
            due_ms = outbox.next_due_ms(self.integration.key)
            if due_ms is None:
                return IDLE_SECONDS
            # A row that is due but waits for an earlier one has that one's time.
            return min(IDLE_SECONDS, max(0.05, (due_ms - now_ms) / 1000))
        if entry.unreadable:
            where = f"{entry.receiver}/{self.integration.kind}"
            logger.error("notification %s to %s given up: %s", entry.id, where, entry.unreadable)
            self._turns.insist(outbox, outbox.lost_row)
            self._turns.insist(
                outbox,
                lambda: self._count_failed(outbox, entry, "unreadable", entry.unreadable, now_ms),
            )
            return 0.0
        self._attempt(outbox, entry)
        return 0.0

    def _attempt(self, outbox: Outbox, entry: Entry) -> None:
        notification = entry.notification(self._options.origin)
        self._mark(outbox, entry)
        try:
            send(self.integration, notification)
        except SendError as error:
            self._refused(outbox, entry, error)
            return
        if self.integration.upkeep is not None:
            self.integration.upkeep.sent(notification, self._options.clock())
        self._failures_in_a_row = 0
        self.counters.sent += 1
        self._turns.insist(outbox, lambda: outbox.delivered(entry, self._options.clock()))

    def _mark(self, outbox: Outbox, entry: Entry) -> None:
        """Before it is sent: after a kill, a repeat has to know that it may be one."""
        try:
            try:
                outbox.attempt(entry)
            except sqlite3.Error as error:
                if not outbox.refused(error):
                    raise
                outbox.attempt(entry)
        except sqlite3.Error as error:
            # It keeps nobody from hearing of it; the repeat after a kill is not marked.
            self._trouble.met(error)

    def _refused(self, outbox: Outbox, entry: Entry, error: SendError) -> None:
        now_ms = self._options.clock()
        where = f"{entry.receiver}/{self.integration.kind} ({self.integration.target.label})"
        too_old = now_ms - entry.created_at_ms >= self.integration.max_retry_age_seconds * 1000
        if error.permanent or too_old:
            reason = "rejected" if error.permanent else "expired"
            logger.error("notification %s to %s given up: %s", entry.id, where, error)
            detail = f"{error.reason}: {error}"
            self._turns.insist(
                outbox, lambda: self._count_failed(outbox, entry, reason, detail, now_ms)
            )
            self.on_refused()
            if error.permanent:
                return
        self._failures_in_a_row += 1
        pause_ms = self._options.backoff.delay_ms(self._failures_in_a_row)
        row_ms = self._options.backoff.delay_ms(entry.attempts + 1)
        if error.retry_after_seconds is not None:
            pause_ms = max(pause_ms, round(error.retry_after_seconds * 1000))
        self._resume_at_ms = now_ms + pause_ms
        if too_old:
            return
        self.counters.retries[error.reason] = self.counters.retries.get(error.reason, 0) + 1
        if self._failures_in_a_row == 1:
            logger.warning("notification %s to %s not taken yet: %s", entry.id, where, error)
        next_ms = now_ms + max(row_ms, pause_ms)
        self._turns.insist(outbox, lambda: outbox.retry(entry, next_ms, error.reason, str(error)))

    def _count_failed(
        self, outbox: Outbox, entry: Entry, reason: str, detail: str, now_ms: int
    ) -> None:
        rows = outbox.fail(entry, reason, detail, now_ms)
        failed = self.counters.failed
        failed[reason] = failed.get(reason, 0) + 1
        if rows > 1:
            failed["firing_not_delivered"] = failed.get("firing_not_delivered", 0) + rows - 1


def _nothing() -> None:
    pass
