"""`webhook_configs`: posts Alertmanager's webhook JSON, version 4.

The format is that of notify/webhook/webhook.go and template/template.go in Alertmanager 0.34.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, Field, SecretStr, field_validator

from engine.alerts.fingerprint import fingerprint
from engine.timestamps import NEVER, format_rfc3339
from notifiers.messages.order import worst_first
from notifiers.notification import UNKNOWN_REASON, fired_at_ms, status_of
from notifiers.receivers.alert_json import annotations_of
from notifiers.receivers.http_config import HttpConfig
from notifiers.receivers.http_post import JSON_HEADERS, ask, checked_url
from notifiers.receivers.receiver import ReceiverSettings
from notifiers.receivers.signature import signed_headers
from notifiers.receivers.single_url import SingleUrlReceiver

if TYPE_CHECKING:
    from engine.alerts.alert import Alert
    from notifiers.notification import Notification

ID_HEADER = "Idempotency-Key"
REPEAT_HEADER = "X-Stallwatch-Repeat"


class WebhookConfig(ReceiverSettings):
    """`url` may hold a token in its path or query, so it is a secret as a whole.

    `max_alerts` 0 means all. With `hmac_secret` each message is signed.
    """

    url: SecretStr
    http_config: HttpConfig = HttpConfig()
    max_alerts: int = Field(default=0, ge=0)
    hmac_secret: SecretStr | None = None

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr) -> SecretStr:
        return checked_url(url)

    @field_validator("hmac_secret")
    @classmethod
    def _is_something(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not secret.get_secret_value():
            raise ValueError("is empty; leave it out to send without a signature")
        return secret


class WebhookReceiver(SingleUrlReceiver):
    """One webhook URL."""

    Config: ClassVar[type[BaseModel]] = WebhookConfig

    def __init__(self, config: WebhookConfig) -> None:
        self.send_resolved = config.send_resolved
        self._config = config
        super().__init__(config.url.get_secret_value(), config.http_config)

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Post; any 2xx is an acknowledgement. Raises SendError."""
        body = json.dumps(payload(notification, self._config.max_alerts)).encode()
        ask(
            self._session,
            self._url,
            timeout_seconds,
            body=body,
            headers=self._headers(notification, body),
        )

    def _headers(self, notification: Notification, body: bytes) -> dict[str, str]:
        headers = {**JSON_HEADERS, ID_HEADER: notification.id}
        if notification.possible_repeat:
            headers[REPEAT_HEADER] = "possible"
        if self._config.hmac_secret is not None:
            secret = self._config.hmac_secret.get_secret_value()
            headers |= signed_headers(secret, body, int(time.time()))
        return headers


def payload(notification: Notification, max_alerts: int = 0) -> dict[str, Any]:
    """The body, as a JSON object; `max_alerts` 0 means all.

    Firing alerts stand before resolved ones, the worst first: what is cut off matters least.
    The common labels are those of the alerts shown, as in Alertmanager.
    """
    ordered = worst_first(notification.alerts)
    alerts = ordered[:max_alerts] if max_alerts else ordered
    shown = [_alert(alert) for alert in alerts]
    return {
        "receiver": notification.receiver,
        "status": notification.status,
        "alerts": shown,
        "notification_reason": notification.reason or UNKNOWN_REASON,
        "groupLabels": dict(notification.group_labels),
        "commonLabels": _common([alert["labels"] for alert in shown]),
        "commonAnnotations": _common([alert["annotations"] for alert in shown]),
        "routeLabels": dict(notification.route_labels),
        "externalURL": notification.origin.url,
        "version": "4",
        "groupKey": notification.group_key,
        "truncatedAlerts": len(ordered) - len(alerts),
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "status": status_of(alert),
        "labels": alert.labels.to_dict(),
        "annotations": annotations_of(alert),
        "startsAt": format_rfc3339(fired_at_ms(alert)),
        "endsAt": NEVER if alert.resolved_at_ms is None else format_rfc3339(alert.resolved_at_ms),
        "generatorURL": alert.generator_url,
        "fingerprint": fingerprint(alert.labels),
    }


def _common(sets: list[dict[str, str]]) -> dict[str, str]:
    first, *others = sets or [{}]
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }
