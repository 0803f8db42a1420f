"""What a receiver is handed: a group of alerts with a status and a stable id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.alerts.alert import AlertState
from engine.labels import Labels
from notifiers.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert

Status: TypeAlias = Literal["firing", "resolved"]

# Why a group is told of, in Alertmanager's words: `NotifyReason` in notify/notify.go of 0.34.
FIRST_NOTIFICATION = "first notification"
NEW_ALERTS = "new alerts added"
SOME_RESOLVED = "some alerts resolved"
ALL_RESOLVED = "all alerts resolved"
REPEAT_INTERVAL = "repeat interval elapsed"
UNKNOWN_REASON = "unknown"


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. `id` is the same in every repeat of it.

    `group_labels` are those that all alerts of the group share by definition; with one group per
    alert they are the alert's own. Labels are those that are sent, external ones included.
    `alerts` may be firing and resolved ones together, in any order; `status` is firing while one
    of them is. `attempt` counts from 1. `test` marks what `notify test` sends.
    `group_key_text`: the group's key where the route is known; "": one below the root route.
    `route_labels` are the route's own, `reason` is one of the above, or "" where nobody says.
    `possible_repeat`: an earlier attempt may have arrived, although nobody said so. `trouble`: what
    went wrong when the message was made, for its reader. `part`: which message this is of how many,
    where one is not enough.
    """

    id: str
    receiver: str
    status: Status
    group_labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    attempt: int = 1
    test: bool = False
    origin: Origin = field(default_factory=Origin)
    group_key_text: str = ""
    route_labels: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    possible_repeat: bool = False
    trouble: str = ""
    part: tuple[int, int] = (1, 1)

    @property
    def group_key(self) -> str:
        """Alertmanager's spelling: the route's key, a colon and the group's labels."""
        below_root = "{}:" + "{" + str(Labels(self.group_labels))[1:-1] + "}"
        return self.group_key_text or below_root


def status_of(alert: Alert) -> Status:
    """What receivers call the alert's state."""
    return "resolved" if alert.state is AlertState.RESOLVED else "firing"


def fired_at_ms(alert: Alert) -> int:
    """When receivers are told that it began."""
    return alert.active_at_ms if alert.fired_at_ms is None else alert.fired_at_ms
