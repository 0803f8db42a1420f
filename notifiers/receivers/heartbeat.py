"""`heartbeat_configs`: a dead man's switch. A URL that is asked for as long as rules are evaluated.

The monitor behind it (healthchecks.io, Dead Man's Snitch, an Alertmanager elsewhere) raises the
alarm when nobody asks any more. It is not told of alerts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, SecretStr, field_validator

from engine.config.quantities import Interval, PositiveDuration
from engine.timestamps import format_rfc3339
from notifiers.receivers.http_config import HttpConfig
from notifiers.receivers.http_post import JSON_HEADERS, ask, checked_url
from notifiers.receivers.receiver import ReceiverSettings
from notifiers.receivers.single_url import SingleUrlReceiver

if TYPE_CHECKING:
    from notifiers.notification import Notification
    from notifiers.origin import Origin


class HeartbeatConfig(ReceiverSettings):
    """`url` is a secret as a whole: who knows it can keep the monitor quiet."""

    url: SecretStr
    interval: PositiveDuration = Interval(60_000)
    method: Literal["GET", "POST"] = "POST"
    http_config: HttpConfig = HttpConfig()

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr) -> SecretStr:
        return checked_url(url)


class HeartbeatReceiver(SingleUrlReceiver):
    """One monitor."""

    Config: ClassVar[type[BaseModel]] = HeartbeatConfig

    def __init__(self, config: HeartbeatConfig) -> None:
        self.send_resolved = False
        self.interval_ms = config.interval.ms
        self.timeout_seconds = config.timeout.seconds
        self._method = config.method
        super().__init__(config.url.get_secret_value(), config.http_config)

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Beat for a test, which shows that the URL is right; alerts are nothing to it.

        Raises SendError.
        """
        if notification.test:
            self.beat(notification.origin, notification.alerts[0].active_at_ms, timeout_seconds)

    def beat(self, origin: Origin, evaluated_ms: int, timeout_seconds: float) -> None:
        """Say that rules were evaluated at `evaluated_ms`. Raises SendError."""
        body = b""
        if self._method == "POST":
            shown = {
                "node": origin.node,
                "cluster": origin.cluster,
                "evaluatedAt": format_rfc3339(evaluated_ms),
            }
            body = json.dumps(shown).encode()
        headers = JSON_HEADERS if body else {"User-Agent": JSON_HEADERS["User-Agent"]}
        ask(
            self._session,
            self._url,
            timeout_seconds,
            body=body,
            headers=headers,
            method=self._method,
        )
