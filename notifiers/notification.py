"""What a receiver is handed: a group of alerts with a status and a stable id."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.alerts.alert import AlertState
from engine.alerts.fingerprint import fingerprint
from engine.labels import Labels
from notifiers.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert

Status: TypeAlias = Literal["firing", "resolved"]


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. `id` is the same in every repeat of it.

    `group_labels` are those that all alerts of the group share by definition; with one group per
    alert they are the alert's own. Labels are those that are sent, external ones included.
    `attempt` counts from 1. `test` marks what `notify test` sends.
    """

    id: str
    receiver: str
    status: Status
    group_labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    attempt: int = 1
    test: bool = False
    origin: Origin = field(default_factory=Origin)

    @property
    def group_key(self) -> str:
        """Alertmanager's spelling of a group below the root route."""
        return "{}:" + "{" + str(Labels(self.group_labels))[1:-1] + "}"


def status_of(alert: Alert) -> Status:
    """What receivers call the alert's state."""
    return "resolved" if alert.state is AlertState.RESOLVED else "firing"


def fired_at_ms(alert: Alert) -> int:
    """When receivers are told that it began."""
    return alert.active_at_ms if alert.fired_at_ms is None else alert.fired_at_ms


def message_id(alert: Alert, integration: str) -> str:
    """32 hex digits: the same transition for the same integration always has the same id.

    A receiver that sees an id twice has been sent a repeat.
    """
    parts = (fingerprint(alert.labels), str(fired_at_ms(alert)), status_of(alert), integration)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
