"""A notification as the data that its templates see: Alertmanager's, every value inert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from engine.alerts.wording import evidence_text, inert
from notifiers.messages.order import worst_first
from notifiers.notification import UNKNOWN_REASON, fired_at_ms, status_of
from notifiers.receivers.alert_json import EVIDENCE
from rules.templates.message_values import KV, Alerts, common
from rules.templates.moments import ZERO_NANOSECONDS, Moment
from rules.templates.values import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification

MAX_CHARACTERS = 2000
MAX_LINES = 30
MAX_EVIDENCE = 10


def template_data(notification: Notification) -> Struct:
    """Alertmanager's `Data`, the worst alert first."""
    ordered = worst_first(notification.alerts)
    labels = [_labels(alert.labels.to_dict()) for alert in ordered]
    annotations = [_annotations(alert) for alert in ordered]
    alerts = [
        _alert(alert, labels[place], annotations[place]) for place, alert in enumerate(ordered)
    ]
    return Struct({
        "Receiver": notification.receiver,
        "Status": notification.status,
        "Alerts": Alerts(alerts),
        "NotificationReason": notification.reason or UNKNOWN_REASON,
        "GroupLabels": _labels(notification.group_labels),
        "CommonLabels": common(labels),
        "CommonAnnotations": common(annotations),
        "RouteLabels": _labels(notification.route_labels),
        "ExternalURL": notification.origin.url,
    })  # fmt: skip


def with_first(data: Struct, count: int) -> Struct:
    """The same with the first alerts only; what all of them share is still that of all."""
    return Struct({**data.fields, "Alerts": Alerts(data.fields["Alerts"][:count])})


def _alert(alert: Alert, labels: KV, annotations: KV) -> Struct:
    return Struct({
        "Status": status_of(alert),
        "Labels": labels,
        "Annotations": annotations,
        "StartsAt": Moment(fired_at_ms(alert) * 10**6),
        "EndsAt": Moment(
            ZERO_NANOSECONDS if alert.resolved_at_ms is None else alert.resolved_at_ms * 10**6
        ),
        "GeneratorURL": alert.generator_url,
        "Fingerprint": fingerprint(alert.labels),
    })  # fmt: skip


def _labels(labels: Mapping[str, str]) -> KV:
    """A label is one line."""
    return KV({name: inert(text, MAX_CHARACTERS) for name, text in labels.items()})


def _annotations(alert: Alert) -> KV:
    """They may have lines. The evidence is one of them, a line for each entry."""
    texts = dict(alert.annotations)
    if alert.evidence and EVIDENCE not in texts:
        lines = [evidence_text(entry) for entry in alert.evidence[:MAX_EVIDENCE]]
        rest = len(alert.evidence) - MAX_EVIDENCE
        texts[EVIDENCE] = "\n".join([*lines, f"and {rest} more"] if rest > 0 else lines)
    return KV({name: _lines(text) for name, text in texts.items()})


def _lines(text: str) -> str:
    lines = text[: 2 * MAX_CHARACTERS].splitlines()[:MAX_LINES]
    joined = "\n".join(inert(line, MAX_CHARACTERS) for line in lines)
    return joined if len(joined) <= MAX_CHARACTERS else f"{joined[: MAX_CHARACTERS - 1]}…"
