"""What apprise said while it sent: its only account of a failure, as it answers with one bool."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from notifiers.receivers.receiver import SendError
from notifiers.receivers.urllib3_log import silence_urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HTTP_STATUS = re.compile(r"\berror=(\d{3})\b")
# smtplib's errors, `(535, b'no')`, and apprise's own line about a refused recipient.
_SMTP_REPLY = re.compile(r"\((\d{3}), b?['\"]|\bwas refused: (\d{3})\b|: \((\d{3}), ")
_CAUSE = re.compile(r"Exception: (.*)", re.DOTALL)
_SYSTEM_ERROR = re.compile(r"\[Errno -?\d+\] ([^\")\]]+)")
MAX_DETAIL_CHARACTERS = 300


# A context variable, not a thread's: apprise may send from a thread that it lends a copy of ours.
_lines: ContextVar[list[tuple[int, str]] | None] = ContextVar("apprise_lines", default=None)


class _Keeper(logging.Handler):
    """Keeps the lines of those who asked for them, and nothing else."""

    def emit(self, record: logging.LogRecord) -> None:
        lines = _lines.get()
        if lines is not None and len(lines) < 200:
            lines.append((record.levelno, record.getMessage()))


_handler = _Keeper(logging.DEBUG)
_installed = threading.Lock()


@contextmanager
def captured() -> Iterator[list[tuple[int, str]]]:
    """The (level, line) that apprise logs for the caller meanwhile.

    From the first use on, apprise's lines reach no other log: they hold URLs with tokens.
    """
    logger = logging.getLogger("apprise")
    with _installed:
        if _handler not in logger.handlers:
            logger.addHandler(_handler)
            logger.propagate = False
            logger.setLevel(logging.DEBUG)
            silence_urllib3()
    lines: list[tuple[int, str]] = []
    token = _lines.set(lines)
    try:
        yield lines
    finally:
        _lines.reset(token)


def explain(lines: Sequence[tuple[int, str]], secrets: Sequence[str]) -> SendError:
    """The failure that the lines tell of, with every secret taken out."""
    told = [line for level, line in lines if level >= logging.WARNING]
    causes = [found.group(1) for _, line in lines if (found := _CAUSE.search(line))]
    everything = "\n".join((*told, *causes))
    # The system's own words are all that a reader needs of a library's nested exceptions.
    plain = [found.group(1) for cause in causes if (found := _SYSTEM_ERROR.search(cause))]
    shown = ": ".join((*told[-1:], *(plain or causes)[-1:]))
    detail = redact(shown or "apprise gave no reason", secrets)
    detail = " ".join(detail.split())[:MAX_DETAIL_CHARACTERS]
    if found := _HTTP_STATUS.search(everything):
        return _http(int(found.group(1)), detail)
    if found := _SMTP_REPLY.search(everything):
        code = next(int(group) for group in found.groups() if group)
        return SendError(f"smtp_{code}", detail, permanent=code >= 500)
    lowered = everything.lower()
    if "certificate" in lowered or "ssl" in lowered:
        return SendError("tls", detail)
    if "timed out" in lowered or "timeout" in lowered:
        return SendError("timeout", detail)
    return SendError("connection", detail)


def _http(code: int, detail: str) -> SendError:
    if code == 429:
        return SendError("rate_limited", detail)
    if code >= 500 or code in {408, 425}:
        return SendError("server_error", detail)
    return SendError(f"http_{code}", detail, permanent=True)


def secrets_of(url: str) -> tuple[str, ...]:
    """The parts of an apprise URL that may be secret: nearly all of it, for chats.

    Of mail URLs only the password and the user are; a server and an address help to mend.
    """
    parts = urlsplit(url)
    pieces = [parts.password or "", parts.username or ""]
    if not parts.scheme.startswith("mailto"):
        pieces += [parts.hostname or "", parts.netloc, *parts.path.split("/")]
        pieces += [value for pair in parts.query.split("&") for value in pair.split("=")[1:]]
    found = {form for piece in pieces for form in (piece, unquote(piece)) if len(form) >= 4}
    return (url, *sorted(found, key=len, reverse=True))


def redact(text: str, secrets: Sequence[str]) -> str:
    """The text with stars in place of secrets."""
    for secret in secrets:
        text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
    return text
