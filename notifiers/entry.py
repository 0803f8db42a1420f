"""Rows of the outbox as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.alerts.encoding import alert_from_json
from engine.alerts.fingerprint import fingerprint
from engine.labels import Labels
from notifiers.notification import Notification

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert
    from notifiers.origin import Origin

State: TypeAlias = Literal["pending", "delivered", "failed"]

COLUMNS = (
    "id, receiver, integration, group_key, group_labels, status, alerts, news, state, reason,"
    " detail, attempts, created_at_ms, retold, sent_as"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row. `integration` is the key that its worker goes by; `attempts` were made so far.

    `news`: why the message was made. `reason`, `detail`: why it was not taken. `retold`:
    fingerprints of alerts that fire of which an earlier message told. `sent_as`: by fingerprint,
    the labels with which an alert is sent, where they are not its own. `unreadable`: why there are
    no alerts, in a row that is damaged or was written by a newer version.
    """

    id: str
    receiver: str
    integration: str
    group_key: str
    group_labels: dict[str, str]
    status: Literal["firing", "resolved"]
    alerts: tuple[Alert, ...]
    news: str
    state: State
    reason: str
    detail: str
    attempts: int
    created_at_ms: int
    retold: frozenset[str] = frozenset()
    unreadable: str = ""
    sent_as: Mapping[str, Labels] = field(default_factory=dict)

    def notification(self, origin: Origin) -> Notification:
        """The message of this row.

        The labels that are sent come in here: rows are found again by the labels that rules gave,
        which a dry-run gives too.
        """
        alerts = tuple(replace(one, labels=self._sent(one.labels, origin)) for one in self.alerts)
        return Notification(
            id=self.id,
            receiver=self.receiver,
            status=self.status,
            group_labels=self.group_labels,
            alerts=alerts,
            attempt=self.attempts + 1,
            origin=origin,
            group_key_text=self.group_key,
            reason=self.news,
            possible_repeat=self.attempts > 0,
        )

    def _sent(self, labels: Labels, origin: Origin) -> Labels:
        # A row of an earlier version has none.
        return self.sent_as.get(fingerprint(labels)) or origin.labelled(labels)


@dataclass(frozen=True, slots=True)
class Backlog:
    """A receiver's rows: how many are pending, since when (None: none are), how many failed."""

    pending: int
    oldest_ms: int | None
    failed: int


def entry_of(row: tuple[Any, ...]) -> Entry:
    """The entry of a row that was selected by COLUMNS, readable or not."""
    (
        *names,
        group_labels,
        status,
        alerts,
        news,
        state,
        reason,
        detail,
        attempts,
        created,
        old,
        sent,
    ) = row
    identity, receiver, integration, group_key = names
    try:
        labels, retold = dict(json.loads(group_labels)), frozenset(json.loads(old))
        told = tuple(alert_from_json(alert) for alert in json.loads(alerts))
        sent_as = {own: Labels(labels) for own, labels in json.loads(sent).items()}
        unreadable = ""
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        labels, told, retold, sent_as = {}, (), frozenset(), {}
        unreadable = f"the row cannot be read: {type(error).__name__}: {error}"
    return Entry(
        identity,
        receiver,
        integration,
        group_key,
        labels,
        "resolved" if status == "resolved" else "firing",
        told,
        news,
        "failed" if state == "failed" else "delivered" if state == "delivered" else "pending",
        reason,
        detail,
        attempts,
        created,
        retold,
        unreadable,
        sent_as,
    )
