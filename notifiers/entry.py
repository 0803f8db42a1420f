"""Rows of the outbox as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.alerts.encoding import alert_from_json
from notifiers.notification import Notification

if TYPE_CHECKING:
    from engine.alerts.alert import Alert
    from notifiers.origin import Origin

State: TypeAlias = Literal["pending", "delivered", "failed"]

COLUMNS = "id, receiver, integration, status, alert, state, reason, detail, attempts, created_at_ms"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row. `integration` is the key that its worker goes by; `attempts` were made so far."""

    id: str
    receiver: str
    integration: str
    status: Literal["firing", "resolved"]
    alert: Alert
    state: State
    reason: str
    detail: str
    attempts: int
    created_at_ms: int

    def notification(self, origin: Origin) -> Notification:
        """The message of this row: one group per alert.

        External labels come in here, not in the outbox: its rows are found again by the labels
        that rules gave, which a dry-run gives too.
        """
        alert = replace(self.alert, labels=origin.labelled(self.alert.labels))
        return Notification(
            id=self.id,
            receiver=self.receiver,
            status=self.status,
            group_labels=alert.labels.to_dict(),
            alerts=(alert,),
            attempt=self.attempts + 1,
            origin=origin,
        )


@dataclass(frozen=True, slots=True)
class Backlog:
    """A receiver's rows: how many are pending, since when (None: none are), how many failed."""

    pending: int
    oldest_ms: int | None
    failed: int


def entry_of(row: tuple[str, str, str, str, str, str, str, str, int, int]) -> Entry:
    """The entry of a row that was selected by COLUMNS."""
    identity, receiver, integration, status, alert, state, reason, detail, attempts, created = row
    return Entry(
        identity,
        receiver,
        integration,
        "resolved" if status == "resolved" else "firing",
        alert_from_json(json.loads(alert)),
        "failed" if state == "failed" else "delivered" if state == "delivered" else "pending",
        reason,
        detail,
        attempts,
        created,
    )
