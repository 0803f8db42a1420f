"""Query parameters of the API: matchers, flags, and an expression over receivers' names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.matchers import Matcher, MatcherError, parse_matchers
from engine.alerts.wording import inert
from notifiers.api.answers import INVALID_TYPE, RequestError
from rules.promql.regex import PatternError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.http.message import Request

MAX_FILTERS = 100
_RECEIVER = "receiver"
# go-openapi/swag, ConvertBool.
_TRUE = frozenset({"true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled"})
_FALSE = frozenset({"false", "0", "no", "n", "off", "unchecked", "f", "disabled"})


def matchers_of(request: Request) -> list[Matcher]:
    """The matchers of every `filter`, one in each. Raises RequestError."""
    texts = request.parameters.get("filter", ())
    if len(texts) > MAX_FILTERS:
        raise RequestError(400, f"more than {MAX_FILTERS} filters")
    return [_matcher(text) for text in texts]


def flag(request: Request, name: str) -> bool:
    """A boolean parameter, true where it is missing. Raises RequestError."""
    text = request.text(name, "true").lower()
    if text not in _TRUE | _FALSE:
        message = f'{name} in query must be of type boolean: "{inert(text)}"'
        raise RequestError(422, message, code=INVALID_TYPE)
    return text in _TRUE


def receiver_filter(request: Request) -> Callable[[str], bool] | None:
    """Whether the expression `receiver` matches all of a name; None without one.

    Raises RequestError.
    """
    if _RECEIVER not in request.parameters:
        return None
    try:
        matcher = Matcher(_RECEIVER, "=~", request.text(_RECEIVER))
    except PatternError as error:
        raise RequestError(400, f"failed to parse receiver param: {error}") from error
    return lambda name: matcher.matches({_RECEIVER: name})


def _matcher(text: str) -> Matcher:
    try:
        matchers = parse_matchers(text)
    except MatcherError as error:
        raise RequestError(400, str(error)) from error
    if len(matchers) != 1:
        raise RequestError(400, f"expected 1 matcher, found {len(matchers)}: {inert(text)}")
    return matchers[0]
