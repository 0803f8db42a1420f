"""Asks a running agent, for commands that show what it knows."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse

from rules.errors import StallwatchError

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 << 20
HINT = "is the agent running ('stallwatch run')? --url names another address"


class NoAgentError(StallwatchError):
    """Nobody answers, or not as an agent does."""


def ask(url: str, path: str, timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """The body of GET `url`/`path`, an answer with status 200. Raises NoAgentError.

    No proxy: the agent is on this machine, or named on purpose.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url.rstrip('/')}{path}", timeout=timeout_seconds) as answer:
            body = _body(answer, time.monotonic() + timeout_seconds)
    except urllib.error.HTTPError as error:
        raise NoAgentError(
            f"stallwatch: {url} answers HTTP {error.code}\n    hint: is that a stallwatch agent?"
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        said = getattr(reason, "strerror", None) or reason
        raise NoAgentError(f"stallwatch: no agent at {url}: {said}\n    hint: {HINT}") from error
    return body


def _body(answer: HTTPResponse, deadline: float) -> bytes:
    """At most MAX_ANSWER_BYTES. The socket's own timeout starts anew with every byte."""
    body = bytearray()
    while len(body) < MAX_ANSWER_BYTES and (part := answer.read1(1 << 20)):
        body += part
        if time.monotonic() > deadline:
            raise TimeoutError("the answer does not end")
    return bytes(body[:MAX_ANSWER_BYTES])
