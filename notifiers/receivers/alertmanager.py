"""`alertmanager_configs`: tells an Alertmanager of alerts, as Prometheus does.

The API is `POST /api/v2/alerts` (api/v2/openapi.yaml in Alertmanager). It is told of states, not
of messages: the same alert twice is one alert, so a repeat does no harm.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr, field_validator

from engine.config.quantities import Interval, PositiveDuration
from engine.timestamps import format_rfc3339
from notifiers.alertmanager.resending import RESEND_MS, valid_until_ms
from notifiers.notification import fired_at_ms
from notifiers.receivers.alert_json import annotations_of
from notifiers.receivers.http_config import HttpConfig
from notifiers.receivers.http_post import ask, checked_url
from notifiers.receivers.receiver import ReceiverSettings, SendError
from notifiers.receivers.single_url import SingleUrlReceiver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification

PATH = "/api/v2/alerts"
# Prometheus' `DefaultMaxBatchSize`, and a bound on bytes: evidence makes alerts long.
BATCH_ALERTS = 256
BATCH_BYTES = 1_000_000


class AlertmanagerConfig(ReceiverSettings):
    """`url` without the API's path; a path prefix may stand in it. All of it is a secret.

    `resend`: how often what still fires is told again.
    """

    url: SecretStr
    http_config: HttpConfig = HttpConfig()
    resend: PositiveDuration = Interval(RESEND_MS)

    @field_validator("url")
    @classmethod
    def _is_a_base(cls, url: SecretStr) -> SecretStr:
        parts = urlsplit(checked_url(url).get_secret_value())
        if parts.query or parts.fragment or parts.path.rstrip("/").endswith("/alerts"):
            raise ValueError("expected where Alertmanager is, such as http://host:9093")
        return url


class AlertmanagerReceiver(SingleUrlReceiver):
    """One Alertmanager."""

    Config: ClassVar[type[BaseModel]] = AlertmanagerConfig

    def __init__(self, config: AlertmanagerConfig) -> None:
        self.send_resolved = config.send_resolved
        self.resend_ms = config.resend.ms
        super().__init__(config.url.get_secret_value().rstrip("/") + PATH, config.http_config)

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Tell of all alerts of a notification as of now. Raises SendError."""
        self.tell(notification.alerts, time.time_ns() // 1_000_000, self.resend_ms, timeout_seconds)

    def tell(
        self, alerts: Sequence[Alert], now_ms: int, interval_ms: int, timeout_seconds: float
    ) -> None:
        """Tell of alerts in as many requests as it takes, all of them within the timeout.

        `interval_ms`: how often their rules are evaluated. Raises SendError at the first request
        that may be taken another time; what was told before it may be told again. An alert that is
        refused for good (Alertmanager takes the others of its request) holds up no request.
        """
        end_ms = valid_until_ms(now_ms, interval_ms, self.resend_ms)
        deadline = time.monotonic() + timeout_seconds
        refused: SendError | None = None
        for body in batches([posted(alert, end_ms) for alert in alerts]):
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                raise SendError("timeout", "not all alerts were taken in time")
            try:
                ask(self._session, self._url, left_seconds, body=body)
            except SendError as error:
                if not error.permanent:
                    raise
                refused = error
        if refused is not None:
            raise refused


def posted(alert: Alert, end_ms: int) -> dict[str, Any]:
    """An alert as the API takes it; `end_ms` is when one that fires ends if nobody says more."""
    ends_ms = end_ms if alert.resolved_at_ms is None else alert.resolved_at_ms
    shown = {
        "labels": alert.labels.to_dict(),
        "annotations": annotations_of(alert),
        "startsAt": format_rfc3339(fired_at_ms(alert)),
        "endsAt": format_rfc3339(ends_ms),
    }
    # The API knows an absent URL, and refuses an empty one.
    return {**shown, "generatorURL": alert.generator_url} if alert.generator_url else shown


def batches(alerts: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """JSON lists of the alerts in their order, each bounded in alerts and, above one, in bytes."""
    waiting: list[bytes] = []
    size = 0
    for alert in alerts:
        encoded = json.dumps(alert).encode()
        if waiting and (len(waiting) >= BATCH_ALERTS or size + len(encoded) > BATCH_BYTES):
            yield b"[" + b",".join(waiting) + b"]"
            waiting, size = [], 0
        waiting.append(encoded)
        size += len(encoded) + 1
    if waiting:
        yield b"[" + b",".join(waiting) + b"]"
