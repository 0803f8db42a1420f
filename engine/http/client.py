"""Asks a running agent, for commands that show what it knows."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException

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
            body: bytes = answer.read(MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        raise NoAgentError(
            f"stallwatch: {url} answers HTTP {error.code}\n    hint: is that a stallwatch agent?"
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        said = getattr(reason, "strerror", None) or reason
        raise NoAgentError(f"stallwatch: no agent at {url}: {said}\n    hint: {HINT}") from error
    return body
