"""What services answered while apprise sent: the status, `Retry-After`, and a refusal in the body.

apprise tells only whether it is content, and it is content with any HTTP 200. Some services refuse
with one: DingTalk and WeCom write an `errcode` into the body, Feishu and Lark a `code`, and Slack's
bots get an `error`. All of apprise's services ask through requests, where every request passes
`Session.send`.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import requests

from notifiers.receivers.http_post import judge
from notifiers.receivers.receiver import SendError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from requests import PreparedRequest, Response

# Where the code of a refusal stands, by apprise's scheme.
_CODES = {"dingtalk": "errcode", "wecombot": "errcode", "feishu": "code", "lark": "code"}
# "Busy" and "too often" in the services' lists of codes; everything else is as wrong tomorrow.
_RATE_CODES = frozenset({45009, 45033, 90030, 130101, 11232, 230020, 99991400})
_BUSY_CODES = frozenset({-1})
# Slack's words for the same (docs.slack.dev, chat.postMessage, "Errors").
_SLACK_RATE = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_SLACK_BUSY = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"}
)
_WORD = re.compile(r"[a-z_]{1,60}")
MAX_BODY_BYTES = 65_536

# A context variable, not a thread's: apprise may send from a thread that it lends a copy of ours.
_answers: ContextVar[list[Response] | None] = ContextVar("apprise_answers", default=None)
_installed = threading.Lock()
_send = requests.Session.send


def _noting(session: requests.Session, request: PreparedRequest, **kwargs: Any) -> Response:
    noted = _answers.get()
    if noted is None:
        return _send(session, request, **kwargs)
    # A redirect would carry the credentials along, and turns a POST into a GET of nothing.
    response = _send(session, request, **{**kwargs, "allow_redirects": False})
    noted.append(response)
    return response


@contextmanager
def answers() -> Iterator[list[Response]]:
    """The answers to what the caller asks through requests meanwhile; no redirect is followed."""
    with _installed:
        requests.Session.send = _noting  # type: ignore[method-assign,assignment]
    noted: list[Response] = []
    token = _answers.set(noted)
    try:
        yield noted
    finally:
        _answers.reset(token)


def check(noted: Sequence[Response], scheme: str) -> None:
    """Raise SendError if the last answer is a refusal, by its status or in its body."""
    if not noted:
        return
    last = noted[-1]
    code = _refusal_in(last, scheme)
    # Before the status: Feishu says "too often" with a 400, too.
    if code in _RATE_CODES | _SLACK_RATE | _BUSY_CODES | _SLACK_BUSY:
        refuse(code)
    judge(last)
    if code:
        refuse(code)


def refuse(code: int | str) -> NoReturn:
    """Raise the SendError of a service's own code or word for a refusal."""
    # Without the service's text: it may repeat there what it was sent.
    known = code if isinstance(code, int) or _WORD.fullmatch(code) else "of no name"
    said = f"the service answers with its error {known}"
    if code in _RATE_CODES | _SLACK_RATE:
        raise SendError("rate_limited", said)
    if code in _BUSY_CODES | _SLACK_BUSY:
        raise SendError("server_error", said)
    raise SendError("refused", said, permanent=True)


def _refusal_in(response: Response, scheme: str) -> int | str:
    """The code of a refusal; 0 when it is none, or nothing that can be read."""
    if scheme not in {*_CODES, "slack"} or len(response.content) > MAX_BODY_BYTES:
        return 0
    try:
        body = json.loads(response.content)
    except ValueError:
        return 0
    if not isinstance(body, dict):
        return 0
    if scheme == "slack":
        word = "" if body.get("ok") is not False else str(body.get("error"))
        return word if _WORD.fullmatch(word) else 0
    code = body.get(_CODES[scheme], 0)
    return code if isinstance(code, int) else 0
