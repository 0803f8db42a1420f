"""One HTTP request to a receiver: what its answer means, and what went wrong without one."""

from __future__ import annotations

import ssl
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import requests

from notifiers.receivers.receiver import SendError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

# Among 4xx: "try again", in three dialects.
_TRANSIENT = frozenset({408, 425, 429})
MAX_RETRY_AFTER_SECONDS = 3600.0
JSON_HEADERS = {"Content-Type": "application/json", "User-Agent": "stallwatch"}


def checked_url(url: SecretStr) -> SecretStr:
    """The URL, if it is one for HTTP. Raises ValueError, which does not show it."""
    try:
        parts = urlsplit(url.get_secret_value())
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError("expected a URL such as https://host/path")
    return url


def host_of(url: str) -> str:
    """Scheme and host, as a label for people: a path or query may be a secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def ask(
    session: requests.Session,
    url: str,
    timeout_seconds: float,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] = JSON_HEADERS,
    method: Literal["POST", "GET"] = "POST",
    answer_bytes: int = 0,
) -> bytes:
    """Send a request; any 2xx is an acknowledgement. Raises SendError for everything else.

    Returns so many bytes of the answer's body, as far as it has them.
    """
    try:
        # stream: the answer's body is not ours to read, however long it is.
        with session.request(
            method,
            url,
            data=body or None,
            headers=dict(headers),
            timeout=timeout_seconds,
            allow_redirects=False,
            stream=True,
        ) as response:
            judge(response)
            return response.raw.read(answer_bytes, decode_content=True) if answer_bytes else b""
    except (requests.RequestException, OSError) as error:
        raise _explain(error) from None


def judge(response: requests.Response) -> None:
    """Raise SendError unless an answer's status is an acknowledgement."""
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
