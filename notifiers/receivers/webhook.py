"""`webhook_configs`: posts Alertmanager's webhook JSON, version 4.

The format is that of notify/webhook/webhook.go and template/template.go in Alertmanager.
"""

from __future__ import annotations

import json
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import requests
from pydantic import BaseModel, Field, SecretStr, field_validator

from engine.alerts.fingerprint import fingerprint
from engine.timestamps import NEVER, format_rfc3339
from notifiers.notification import fired_at_ms, status_of
from notifiers.receivers.http_config import HttpConfig, open_session
from notifiers.receivers.receiver import ReceiverSettings, SendError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification
    from notifiers.receivers.receiver import Target

ID_HEADER = "Idempotency-Key"
# Among 4xx: "try again", in three dialects.
_TRANSIENT = frozenset({408, 425, 429})
MAX_RETRY_AFTER_SECONDS = 3600.0


class WebhookConfig(ReceiverSettings):
    """`url` may hold a token in its path or query, so it is a secret as a whole."""

    url: SecretStr
    http_config: HttpConfig = HttpConfig()
    max_alerts: int = Field(default=0, ge=0)

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr) -> SecretStr:
        try:
            parts = urlsplit(url.get_secret_value())
            good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise ValueError("expected a URL such as https://host/path")
        return url


class WebhookReceiver:
    """One webhook URL. It is its own, only target."""

    Config: ClassVar[type[BaseModel]] = WebhookConfig

    def __init__(self, config: WebhookConfig) -> None:
        self.send_resolved = config.send_resolved
        self._config = config
        self._url = config.url.get_secret_value()
        self._session = open_session(config.http_config)

    @property
    def label(self) -> str:
        """Scheme and host: a path or query may be a secret."""
        parts = urlsplit(self._url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}"

    def targets(self) -> Sequence[Target]:
        """Itself."""
        return (self,)

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Post; any 2xx is an acknowledgement. Raises SendError."""
        body = payload(notification, self._config.max_alerts)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "stallwatch",
            ID_HEADER: notification.id,
        }
        try:
            # stream: the answer's body is not ours to read, however long it is.
            with self._session.post(
                self._url,
                data=json.dumps(body).encode(),
                headers=headers,
                timeout=timeout_seconds,
                allow_redirects=False,
                stream=True,
            ) as response:
                _judge(response)
        except (requests.RequestException, OSError) as error:
            raise _explain(error) from None


def payload(notification: Notification, max_alerts: int = 0) -> dict[str, Any]:
    """The body, as a JSON object; `max_alerts` 0 means all."""
    alerts = notification.alerts[:max_alerts] if max_alerts else notification.alerts
    shown = [_alert(alert) for alert in alerts]
    return {
        "receiver": notification.receiver,
        "status": notification.status,
        "alerts": shown,
        "groupLabels": dict(notification.group_labels),
        "commonLabels": _common([alert["labels"] for alert in shown]),
        "commonAnnotations": _common([alert["annotations"] for alert in shown]),
        "externalURL": notification.origin.url,
        "version": "4",
        "groupKey": notification.group_key,
        "truncatedAlerts": len(notification.alerts) - len(alerts),
    }


def _alert(alert: Alert) -> dict[str, Any]:
    annotations = dict(alert.annotations)
    if alert.evidence:
        annotations["evidence"] = json.dumps(
            list(alert.evidence), separators=(",", ":"), ensure_ascii=False
        )
    return {
        "status": status_of(alert),
        "labels": alert.labels.to_dict(),
        "annotations": annotations,
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


def _judge(response: requests.Response) -> None:
    code = response.status_code
    if 200 <= code < 300:
        return
    if 300 <= code < 400:
        text = f"HTTP {code}: the receiver redirects, which is not followed; give its final URL"
        raise SendError("redirect", text, permanent=True)
    text = f"HTTP {code} {response.reason or ''}".rstrip()[:200]
    wait_seconds = _retry_after_seconds(response.headers.get("Retry-After", ""))
    if code == 429:
        raise SendError("rate_limited", text, retry_after_seconds=wait_seconds)
    if code >= 500 or code in _TRANSIENT:
        raise SendError("server_error", text, retry_after_seconds=wait_seconds)
    raise SendError(f"http_{code}", text, permanent=True)


def _retry_after_seconds(text: str) -> float | None:
    """Seconds, or an HTTP date; None for neither (RFC 9110, 10.2.3)."""
    if text.isdecimal():
        return min(float(text[:9]), MAX_RETRY_AFTER_SECONDS)
    try:
        at = parsedate_to_datetime(text)
        seconds = at.timestamp() - time.time()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return min(max(0.0, seconds), MAX_RETRY_AFTER_SECONDS)


def _explain(error: BaseException) -> SendError:
    """What happened, in words of our own: the library's texts hold the URL."""
    if isinstance(error, requests.Timeout):
        return SendError("timeout", "no answer in time")
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidHeader):
        return SendError("configuration", "the URL or a header is not valid", permanent=True)
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return SendError("tls", f"its certificate does not verify: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return SendError("tls", f"TLS failed: {cause.reason or 'no details'}")
        # requests' own errors are OSErrors too, without a number.
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return SendError("connection", cause.strerror)
    if isinstance(error, requests.ConnectionError):
        return SendError("connection", "the connection broke before an answer came")
    # What requests raises for a certificate file that has gone is a bare OSError.
    return SendError("configuration", f"a certificate file cannot be read ({type(error).__name__})")


def _causes(error: BaseException | None) -> list[BaseException]:
    """The chain of causes; urllib3 keeps some of it in `reason` and `args` only."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < 50:
        one = waiting.pop(0)
        if one is None or one in found:
            continue
        found.append(one)
        inner = [part for part in one.args if isinstance(part, BaseException)]
        reason = getattr(one, "reason", None)
        if isinstance(reason, BaseException):
            inner.append(reason)
        waiting += [*inner, one.__cause__, one.__context__]
    return found
