"""Delivery: alerts to the dispatcher, its messages to the outbox, a worker per integration.

At least once, in order per group and integration, surviving kill -9: what is in the outbox when
the agent dies is sent by the next one, with the same message id.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from engine.alerts.alert import Suppression
from engine.http.paths import NOTIFY
from engine.state.connection import StateConnection
from engine.state.file import StateFile
from notifiers import outbox as outbox_rows
from notifiers.api.notify import NotifyApi
from notifiers.api.service import SilenceService
from notifiers.dispatch import tables
from notifiers.dispatch.loop import DispatchLoop
from notifiers.dispatch.opening import addressees, open_dispatcher
from notifiers.dispatch.rescue import settle_with_rules
from notifiers.entry import Backlog
from notifiers.integrations import integrations
from notifiers.origin import Origin
from notifiers.outbox import Outbox
from notifiers.receivers.apprise import AppriseTarget
from notifiers.routing.plan import Plan
from notifiers.slack.web import SlackTarget
from notifiers.upgrade import move_old_outbox
from notifiers.worker import SendOptions, Worker
from rules.errors import StallwatchError
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.config.model import Config
    from engine.http.message import Handler
    from engine.labels import Labels
    from engine.readings import Pairs
    from engine.telemetry import OwnSample
    from notifiers.dispatch.dispatcher import Dispatcher
    from notifiers.dispatch.group import Timer
    from notifiers.dispatch.limiting import Limiter
    from notifiers.dispatch.log import NotificationLog
    from notifiers.worker import Integration

logger = logging.getLogger(__name__)


def open_delivery(config: Config, state: str | StateFile) -> OutboxDelivery:
    """The delivery for a configuration; makes its tables in state.db.

    Without a route every receiver hears of everything. Raises StallwatchError when the database
    cannot be opened or a receiver not be set up.
    """
    found = integrations(config)
    plan, options = Plan.of(config), SendOptions(origin=Origin.of(config))
    service = SilenceService(config, plan.root, state, options.clock)
    return OutboxDelivery(found, plan, state, options, service)


class OutboxDelivery:
    """`engine.protocols.Delivery` over a dispatcher and an outbox in SQLite."""

    def __init__(
        self,
        found: Sequence[Integration],
        plan: Plan,
        state: str | StateFile,
        options: SendOptions | None = None,
        service: SilenceService | None = None,
    ) -> None:
        self._service = service
        self._options = options or SendOptions()
        self._plan = plan
        self._file = StateFile.of(state)
        self._addressees = addressees(found)
        self._workers = [Worker(one, self._file, self._options) for one in found]
        self._loop = DispatchLoop(
            self._file, self._open_dispatcher, self._wake_workers, self._options.clock
        )
        if service is not None:
            service.show_kept_back(self._kept_back, self._sent)
        for worker in self._workers:
            worker.on_refused = self._loop.wake
        self._file.listeners.append(self._moved)
        try:
            self._file.prepare(outbox_rows.create_tables)
            self._file.prepare(tables.create_tables)
            with closing(self._file.connect()) as own:
                move_old_outbox(own, self._options.clock())
            if self._file.losses:
                with closing(StateConnection(self._file)) as mended, mended.writing() as own:
                    settle_with_rules(own, self._options.clock())
        except sqlite3.Error as error:
            raise StallwatchError(
                f"{self._file.path}: cannot be used as outbox: {error}"
            ) from error

    def _open_dispatcher(self, log: NotificationLog, timers: Mapping[str, Timer]) -> Dispatcher:
        return open_dispatcher(
            self._plan,
            self._addressees,
            self._options.origin,
            log,
            timers,
            None if self._service is None else self._service.silences,
        )

    def enqueue(self, connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        """Add rows inside the caller's transaction; commits nothing."""
        tables.put_alerts(connection, alerts)

    def start(self) -> None:
        """Start the dispatcher and the workers; what an earlier run left behind goes first."""
        self._abandon_removed()
        for worker in self._workers:
            worker.start()
        self._loop.start()

    def wake(self) -> None:
        """The rows of the last `enqueue` are committed."""
        self._loop.wake()

    def _moved(self) -> None:
        """All go where the file went, those that have nothing to do too."""
        self._loop.wake()
        self._wake_workers()

    def _wake_workers(self) -> None:
        for worker in self._workers:
            worker.wake()

    def samples(self) -> Sequence[OwnSample]:
        """The stallwatch_notify_* metrics now."""
        silences = [] if self._service is None else self._service.samples()
        noise = self._noise_samples()
        return [*self._counter_samples(), *self._backlog_samples(), *noise, *silences]

    def _noise_samples(self) -> Iterable[OwnSample]:
        with self._loop.lock:
            dispatcher = self._loop.dispatcher
            if dispatcher is None:
                return
            if dispatcher.flaps is not None:
                yield "stallwatch_notify_flapping_alerts", (), "gauge", float(len(dispatcher.flaps))
            for worker in self._workers:
                if worker.integration.limit is not None:
                    yield from _held(worker.integration, dispatcher.limiter)

    def _kept_back(self, labels: Labels) -> Suppression:
        with self._loop.lock:
            dispatcher = self._loop.dispatcher
            if dispatcher is None:
                return Suppression()
            return dispatcher.kept_back(labels, self._options.clock())

    def _sent(self, labels: Labels) -> Labels | None:
        with self._loop.lock:
            dispatcher = self._loop.dispatcher
            if dispatcher is None:
                return self._options.origin.relabelled(labels)
            return dispatcher.sent(labels)

    def suppression(self, alert: Alert) -> Suppression:
        """What keeps notifications of an alert back now."""
        found = Suppression() if self._service is None else self._service.suppression(alert)
        dispatcher = self._loop.dispatcher
        seen = None if dispatcher is None else dispatcher.acknowledged.of(alert)
        return found if seen is None else replace(found, acknowledgement=seen)

    def mounted(self, alerts: Callable[[], Sequence[Alert]]) -> Mapping[str, Handler]:
        """Alertmanager's API, and our own beside it."""
        own = NotifyApi(
            self._file,
            [worker.integration.key for worker in self._workers],
            self._wake_all,
            self._options.clock,
        )
        theirs = {} if self._service is None else self._service.mounted(alerts)
        return {**theirs, NOTIFY: own.handle}

    def _wake_all(self) -> None:
        self._loop.wake()
        self._wake_workers()

    def stop(self, timeout_seconds: float) -> None:
        """Ask every thread to stop and wait so long in all; the rest stays in the outbox."""
        deadline = time.monotonic() + timeout_seconds
        for worker in self._workers:
            worker.ask_to_stop()
        self._loop.stop(timeout_seconds)
        for worker in self._workers:
            if not worker.join(max(0.0, deadline - time.monotonic())):
                logger.warning("%s is still sending and is left behind", worker.integration.key)
        if self._service is not None:
            self._service.close()

    def _abandon_removed(self) -> None:
        keys = [worker.integration.key for worker in self._workers]
        own = Outbox(self._file)
        try:
            for receiver, rows in own.abandon_others(keys, self._options.clock()):
                logger.warning(
                    "%d notifications for receiver '%s' are given up: the configuration no "
                    "longer has where they were to go ('stallwatch notify dead' lists them)",
                    rows,
                    receiver,
                )
        finally:
            own.close()

    def _counter_samples(self) -> Iterable[OwnSample]:
        totals: dict[tuple[str, Pairs], float] = {}
        for worker in self._workers:
            for name, labels, count in _counts(worker):
                totals[name, labels] = totals.get((name, labels), 0.0) + count
        for (name, labels), total in totals.items():
            yield name, labels, "counter", total

    def _backlog_samples(self) -> Iterable[OwnSample]:
        try:
            own = Outbox(self._file)
            try:
                backlogs = own.backlog()
            finally:
                own.close()
        except sqlite3.Error as error:
            logger.warning("the outbox cannot be read: %s", error)
            return
        now_ms = self._options.clock()
        for receiver in sorted({*self._addressees, *backlogs}):
            backlog = backlogs.get(receiver, Backlog(0, None, 0))
            age_ms = 0 if backlog.oldest_ms is None else max(0, now_ms - backlog.oldest_ms)
            labels = (("receiver", receiver),)
            yield "stallwatch_notify_pending", labels, "gauge", float(backlog.pending)
            yield "stallwatch_notify_oldest_pending_seconds", labels, "gauge", age_ms / 1000
            yield "stallwatch_notify_dead", labels, "gauge", float(backlog.failed)


def _held(one: Integration, limiter: Limiter) -> Iterable[OwnSample]:
    own, labels = limiter.budget(one.key), (("integration", one.key), ("receiver", one.receiver))
    yield "stallwatch_notify_held_back_total", labels, "counter", float(own.held_total)
    yield "stallwatch_notify_waiting_groups", labels, "gauge", float(len(own.waiting))


def _counts(worker: Worker) -> Iterable[tuple[str, Pairs, int]]:
    one, counters = worker.integration, worker.counters
    labels = (("receiver", one.receiver), ("integration", one.kind))
    yield "stallwatch_notify_sent_total", labels, counters.sent
    for reason, count in list(counters.failed.items()):
        yield "stallwatch_notify_failed_total", (*labels, ("reason", reason)), count
    for reason, count in list(counters.retries.items()):
        yield "stallwatch_notify_retries_total", (*labels, ("reason", reason)), count
    if isinstance(one.target, AppriseTarget | SlackTarget):
        yield "stallwatch_notify_template_failures_total", labels, one.target.template_failures
    if one.pictures is not None:
        yield "stallwatch_notify_pictures_failed_total", labels, one.pictures.failed
