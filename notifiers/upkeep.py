"""What an integration does between messages: a thing of its own, driven by its worker's thread.

An Alertmanager is told again of what fires; a monitor is given a sign of life; where a message
stands that the next one edits is written down.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch.tables import sent_as, told_alerts
from notifiers.receivers.receiver import SendError
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    import sqlite3

    from notifiers.alertmanager.resending import Resender
    from notifiers.heartbeat.pulse import Pulse
    from notifiers.notification import Notification
    from notifiers.origin import Origin
    from notifiers.receivers.alertmanager import AlertmanagerReceiver
    from notifiers.receivers.heartbeat import HeartbeatReceiver
    from notifiers.slack.places import Places

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
# After a failure, when nothing else says how long to wait.
RETRY_SECONDS = 5.0


class Upkeep(Protocol):
    """One thread uses it. Times are unix milliseconds. Raises sqlite3.Error."""

    def begin(self, connection: sqlite3.Connection, now_ms: int) -> None:
        """Take up what an earlier process left."""
        ...

    def sent(self, notification: Notification, now_ms: int) -> None:
        """A message was taken just now."""
        ...

    def turn(self, connection: sqlite3.Connection, now_ms: int) -> float:
        """Do what is due; returns for how many seconds there is nothing to do."""
        ...


@dataclass(slots=True)
class Resending:
    """Tells an Alertmanager again of what fires, and for a while of what is resolved."""

    target: AlertmanagerReceiver
    integration: str
    origin: Origin
    interval_ms: int
    timeout_seconds: float
    resender: Resender
    failing: bool = False
    retry_at_ms: int = 0

    def begin(self, connection: sqlite3.Connection, now_ms: int) -> None:
        """What it was told of and still fires is due at once: it may have been long."""
        kept = sent_as(connection)
        alerts = [
            replace(
                one, labels=kept.get(fingerprint(one.labels)) or self.origin.labelled(one.labels)
            )
            for one in told_alerts(connection, self.integration)
        ]
        self.resender.told(alerts, now_ms - self.target.resend_ms)

    def sent(self, notification: Notification, now_ms: int) -> None:
        """See Upkeep."""
        self.resender.told(notification.alerts, now_ms)

    def turn(self, connection: sqlite3.Connection, now_ms: int) -> float:  # noqa: ARG002 - Upkeep's
        """See Upkeep."""
        if now_ms < self.retry_at_ms <= now_ms + RETRY_SECONDS * 1000:
            return (self.retry_at_ms - now_ms) / 1000
        if alerts := self.resender.due(now_ms):
            try:
                self.target.tell(alerts, now_ms, self.interval_ms, self.timeout_seconds)
            except SendError as error:
                self._failed(error)
                self.retry_at_ms = now_ms + round(RETRY_SECONDS * 1000)
                return RETRY_SECONDS
            self.failing = False
            self.resender.told(alerts, now_ms)
        next_ms = self.resender.next_ms()
        return IDLE_SECONDS if next_ms is None else max(0.0, (next_ms - now_ms) / 1000)

    def _failed(self, error: SendError) -> None:
        if not self.failing:
            logger.warning("%s is not told again of what fires: %s", self.integration, error)
        self.failing = True


@dataclass(slots=True)
class Remembering:
    """Keeps where a group's message stands in Slack, for the time after a restart."""

    places: Places
    integration: str

    def begin(self, connection: sqlite3.Connection, now_ms: int) -> None:  # noqa: ARG002 - Upkeep's
        """See Upkeep."""
        self.places.load(connection, self.integration)

    def sent(self, notification: Notification, now_ms: int) -> None:
        """Nothing: the target has put it where it is."""

    def turn(self, connection: sqlite3.Connection, now_ms: int) -> float:  # noqa: ARG002 - Upkeep's
        """See Upkeep."""
        self.places.save(connection, self.integration)
        return IDLE_SECONDS


@dataclass(slots=True)
class Heartbeat:
    """Gives a monitor a sign of life for as long as rules are evaluated."""

    target: HeartbeatReceiver
    integration: str
    origin: Origin
    pulse: Pulse
    failing: bool = False

    def begin(self, connection: sqlite3.Connection, now_ms: int) -> None:
        """Nothing."""

    def sent(self, notification: Notification, now_ms: int) -> None:
        """Nothing: it is told of no alert."""

    def turn(self, connection: sqlite3.Connection, now_ms: int) -> float:
        """See Upkeep. Rules were evaluated when their state was last committed."""
        (evaluated_ms,) = connection.execute(
            "SELECT max(last_evaluation_ms) FROM rule_group"
        ).fetchone()
        if self.pulse.due(now_ms, evaluated_ms):
            try:
                self.target.beat(self.origin, evaluated_ms, self.target.timeout_seconds)
            except SendError as error:
                if not self.failing:
                    logger.warning("%s was given no sign of life: %s", self.integration, error)
                self.failing = True
                self.pulse.beat(now_ms, taken=False)
            else:
                self.failing = False
                self.pulse.beat(now_ms, taken=True)
        return self.pulse.wait_ms(now_ms, evaluated_ms) / 1000
