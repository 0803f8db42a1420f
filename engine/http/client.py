"""Asks a running agent, for commands that show what it knows."""

from __future__ import annotations

import time
import urllib.request
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any

from engine.http.message import JSON
from rules.errors import StallwatchError

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 << 20
HINT = "is the agent running ('stallwatch run')? --url names another address"


class NoAgentError(StallwatchError):
    """Nobody answers, or not as an agent does."""


def ask(url: str, path: str, timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """The body of GET `url`/`path`, an answer with status 200. Raises NoAgentError."""
    status, body = exchange(url, path, timeout_seconds=timeout_seconds)
    if status != HTTPStatus.OK:
        raise NoAgentError(
            f"stallwatch: {url} answers HTTP {status}\n    hint: is that a stallwatch agent?"
        )
    return body


def exchange(
    url: str,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[int, bytes]:
    """Status and body of an answer, whatever the status; `body` is JSON.

    Raises NoAgentError when nobody answers. No proxy: the agent is on this machine, or named on
    purpose.
    """
    handlers = (urllib.request.ProxyHandler({}), _EveryStatus())
    opener = urllib.request.build_opener(*handlers)
    headers = {} if body is None else {"Content-Type": JSON}
    request = urllib.request.Request(  # noqa: S310 - who calls has looked at the scheme
        f"{url.rstrip('/')}{path}", data=body, headers=headers, method=method
    )
    try:
        with opener.open(request, timeout=timeout_seconds) as answer:
            return answer.status, _body(answer, time.monotonic() + timeout_seconds)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        said = getattr(reason, "strerror", None) or reason
        raise NoAgentError(f"stallwatch: no agent at {url}: {said}\n    hint: {HINT}") from error


class _EveryStatus(urllib.request.HTTPErrorProcessor):
    """An error is an answer too, and a redirect is not followed: both say something."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:  # noqa: ARG002 - the base class's
        return response

    https_response = http_response


def _body(answer: HTTPResponse, deadline: float) -> bytes:
    """At most MAX_ANSWER_BYTES. The socket's own timeout starts anew with every byte."""
    body = bytearray()
    while len(body) < MAX_ANSWER_BYTES and (part := answer.read1(1 << 20)):
        body += part
        if time.monotonic() > deadline:
            raise TimeoutError("the answer does not end")
    return bytes(body[:MAX_ANSWER_BYTES])
