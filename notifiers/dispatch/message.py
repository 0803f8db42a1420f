"""A message of a group to one integration, and its id."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch.group import is_firing
from notifiers.notification import fired_at_ms
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.deduplication import News, Reason
    from notifiers.dispatch.group import Group
    from notifiers.dispatch.limiting import RateLimit
    from notifiers.dispatch.log import LogEntry


@dataclass(frozen=True, slots=True)
class Addressee:
    """An integration: its key in the log and the outbox, and whether it asks for resolutions.

    `limit`: how many messages it takes in a while; None: any number.
    """

    key: str
    send_resolved: bool = True
    limit: RateLimit | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a group to one integration: firing alerts first, then resolved ones.

    `id`: the same however often it is made of the same state; 32 hex digits. `retold`:
    fingerprints of those that fire of which an earlier message told. `is_removed`: the
    integration is not configured any more, so that nobody can be told. `may_repeat`: what was told
    before is lost, and may have been this. `sent_as`: by fingerprint, the labels with which an
    alert is sent, where they are not its own.
    """

    id: str
    receiver: str
    integration: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    reason: Reason
    retold: frozenset[str] = frozenset()
    is_removed: bool = False
    may_repeat: bool = False
    sent_as: Mapping[str, Labels] = field(default_factory=dict)

    def labels_of(self, alert: Alert) -> Labels:
        """With which labels one of the alerts is sent."""
        return self.sent_as.get(fingerprint(alert.labels), alert.labels)


def message_of(
    group: Group, to: Addressee, news: News, alerts: Mapping[str, Alert], before: LogEntry | None
) -> Message:
    """The message that tells an integration of a group's news.

    `alerts`: the group's, by fingerprint. `before`: what the log had.
    """
    told = sorted(
        (alerts[key] for key in news.firing | news.resolved),
        key=lambda alert: (not is_firing(alert), fired_at_ms(alert), alert.labels),
    )
    parts = [group.key, to.key, "0" if before is None else str(before.sent_ms)]
    parts += [f"{key} {fired_at_ms(alerts[key])}" for key in sorted(news.firing)]
    parts += [f"{key} {alerts[key].resolved_at_ms}" for key in sorted(news.resolved)]
    labels = dict(group.labels)
    retold = frozenset() if before is None else before.told & news.firing
    return Message(
        digest(parts),
        group.route.receiver,
        to.key,
        group.key,
        labels,
        tuple(told),
        news.reason,
        retold,
    )


def digest(parts: Iterable[str]) -> str:
    """An id, 32 hex digits, of what makes a message the same as another."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]
