"""Answers in the shapes that Alertmanager's API gives them."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from engine.http.message import Response
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pydantic import ValidationError

logger = logging.getLogger(__name__)

# go-openapi/errors: codes of what is wrong with a request that could be read.
INVALID_TYPE = 601
REQUIRED = 602
TOO_FEW_ITEMS = 612
_HEADERS = (("Cache-Control", "no-store"),)


class RequestError(StallwatchError):
    """A request that is answered with an error.

    Without `code` the body is the text as a JSON string, which is how handlers say it; with one it
    is an object, which is how go-openapi answers before a handler is asked.
    """

    def __init__(
        self, status: int, message: str, *, code: int = 0, allow: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.allow = allow

    def response(self) -> Response:
        """The answer."""
        message = str(self)
        answer = answered({"code": self.code, "message": message} if self.code else message)
        headers = answer.headers
        if self.allow:
            headers = (*headers, ("Allow", ", ".join(self.allow)))
        return Response(self.status, answer.body, answer.content_type, headers)


def answered(value: Any) -> Response:
    """A value as JSON."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Half a character, which JSON's escapes can spell, is sent as a question mark.
    return Response(200, f"{body}\n".encode("utf-8", "replace"), headers=_HEADERS)


def empty(status: int) -> Response:
    """An answer that says nothing but its status."""
    return Response(status, b"", headers=_HEADERS)


def invalid_body(error: ValidationError) -> RequestError:
    """What is wrong with a body in one line, the usual problems as go-openapi words them."""
    problems = error.errors(include_url=False)
    first = problems[0]["type"]
    if first == "json_invalid":
        reason = str(problems[0].get("ctx", {}).get("error", "no JSON"))
        return RequestError(400, f"parsing the body failed, because {reason}", code=400)
    code = {"missing": REQUIRED, "too_short": TOO_FEW_ITEMS}.get(first, INVALID_TYPE)
    said = [_problem(one["type"], one["loc"], one["msg"]) for one in problems[:10]]
    return RequestError(422, "; ".join(said), code=code)


def _problem(kind: str, place: tuple[int | str, ...], message: str) -> str:
    where = f"{'.'.join(map(str, place)) or 'the JSON'} in body"
    if kind == "missing":
        return f"{where} is required"
    if kind == "too_short":
        return f"{where} should have at least 1 items"
    text = message.removeprefix("Value error, ").removeprefix("Input ")
    return f"{where}: {text}"
