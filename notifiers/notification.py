"""What a receiver is handed: a group of alerts with a status and a stable id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.alerts.alert import Alert, AlertState
from engine.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Mapping

Status: TypeAlias = Literal["firing", "resolved"]


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. `id` is the same in every repeat of it.

    `group_labels` are those that all alerts of the group share by definition; with one group per
    alert they are the alert's own. `attempt` counts from 1. `test` marks what `notify test` sends.
    """

    id: str
    receiver: str
    status: Status
    group_labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    attempt: int = 1
    test: bool = False

    @property
    def group_key(self) -> str:
        """Alertmanager's spelling of a group below the root route."""
        return "{}:" + "{" + str(Labels(self.group_labels))[1:-1] + "}"


def status_of(alert: Alert) -> Status:
    """What receivers call the alert's state."""
    return "resolved" if alert.state is AlertState.RESOLVED else "firing"


def encode_alert(alert: Alert) -> str:
    """An alert as the outbox keeps it: JSON, the value as text since JSON knows no NaN."""
    return json.dumps(
        {
            "labels": alert.labels.to_dict(),
            "annotations": alert.annotations,
            "state": alert.state.value,
            "value": repr(alert.value),
            "active_at_ms": alert.active_at_ms,
            "fired_at_ms": alert.fired_at_ms,
            "resolved_at_ms": alert.resolved_at_ms,
            "last_evaluation_ms": alert.last_evaluation_ms,
            "evidence": list(alert.evidence),
            "generator_url": alert.generator_url,
            "rule_file": alert.rule_file,
            "group": alert.group,
        },
        separators=(",", ":"),
    )


def decode_alert(text: str) -> Alert:
    """The reverse of `encode_alert`."""
    kept: dict[str, Any] = json.loads(text)
    return Alert(
        labels=Labels(kept.pop("labels")),
        state=AlertState(kept.pop("state")),
        value=float(kept.pop("value")),
        evidence=tuple(kept.pop("evidence")),
        **kept,
    )
