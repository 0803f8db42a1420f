"""A request and a response as data, and Prometheus' JSON envelope around an answer."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.timestamps import parse_timestamp
from rules.durations import DurationError, parse_duration
from rules.errors import StallwatchError
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rules.source import ProblemsError

ErrorType = Literal["bad_data", "execution", "timeout", "unavailable", "not_found", "internal"]
# web/api/v1/api.go, respondError.
STATUS: dict[ErrorType, int] = {
    "bad_data": 400,
    "execution": 422,
    "timeout": 503,
    "unavailable": 503,
    "not_found": 404,
    "internal": 500,
}
MAX_DURATION_MS = 10**15


class ApiError(StallwatchError):
    """A request that gets Prometheus' error envelope as its answer."""

    def __init__(self, error_type: ErrorType, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


@dataclass(frozen=True, slots=True)
class Request:
    """`parameters` are those of the query string and the form, values in order.

    `body` is what came along where that is no form; `content_type` says what it is.
    """

    method: str
    path: str
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accept: str = ""
    body: bytes = b""
    content_type: str = ""

    def text(self, name: str, default: str = "") -> str:
        """The first value of a parameter."""
        values = self.parameters.get(name)
        return values[0] if values else default

    def time_ms(self, name: str, default_ms: int | None = None) -> int:
        """A time parameter; raises ApiError when it is missing without default or no time."""
        text = self.text(name)
        if not text and default_ms is not None:
            return default_ms
        try:
            return parse_timestamp(text)
        except ValueError as error:
            raise ApiError("bad_data", f'invalid parameter "{name}": {error}') from error

    def duration_ms(self, name: str) -> int:
        """A duration (`15s`, or seconds as a number); raises ApiError for anything else."""
        text = self.text(name)
        try:
            return parse_duration(text)
        except DurationError:
            pass  # then it is a number of seconds, or nothing
        try:
            seconds = float(text)
            if math.isfinite(seconds) and abs(seconds) * 1000 < MAX_DURATION_MS:
                return round(seconds * 1000)
        except ValueError:
            pass
        message = f'invalid parameter "{name}": cannot parse "{text}" to a valid duration'
        raise ApiError("bad_data", message)

    def count(self, name: str) -> int:
        """A number that is not negative, 0 when missing (which means: no limit)."""
        text = self.text(name, "0")
        if not text.isdecimal() or len(text) > 18:
            message = f'invalid parameter "{name}": must be a number that is not negative'
            raise ApiError("bad_data", message)
        return int(text)


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back; `headers` beyond Content-Type and Content-Length."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = "Callable[[Request], Response]"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


def plain(status: int, text: str) -> Response:
    """One line of text."""
    return Response(status, f"{text}\n".encode(), "text/plain; charset=utf-8")


def success(data: Any, warnings: tuple[str, ...] = (), infos: tuple[str, ...] = ()) -> Response:
    """The envelope of an answer."""
    envelope: dict[str, Any] = {"status": "success", "data": data}
    if warnings:
        envelope["warnings"] = list(warnings)
    if infos:
        envelope["infos"] = list(infos)
    return Response(200, _json(envelope))


def failure(error_type: ErrorType, message: str) -> Response:
    """The envelope of an error."""
    envelope = {"status": "error", "errorType": error_type, "error": message}
    return Response(STATUS[error_type], _json(envelope))


def parse_errors(error: ProblemsError) -> str:
    """The problems of an expression as Prometheus words them: `1:5: parse error: ...`."""
    shown = []
    for problem in error.problems:
        line, column = problem.source.position(problem.span.start)
        hint = f" ({problem.hint})" if problem.hint else ""
        shown.append(f"{line}:{column}: parse error: {problem.message}{hint}")
    return "; ".join(shown)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
