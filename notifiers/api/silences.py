"""`/api/v2/silences` and `/api/v2/silence/ID` (api/v2/api.go in Alertmanager)."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from engine.alerts.wording import inert
from engine.http.message import JSON
from engine.timestamps import format_rfc3339
from notifiers.api.answers import (
    INVALID_TYPE,
    REQUIRED,
    RequestError,
    answered,
    empty,
    invalid_body,
)
from notifiers.api.filters import matchers_of
from notifiers.silences.encoding import PostableSilence, silence_to_json
from notifiers.silences.silence import SilenceError
from notifiers.silences.store import UnknownSilenceError
from rules.promql.regex import PatternError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.alerts.matchers import Matcher
    from engine.http.message import Request, Response
    from notifiers.silences.silence import Silence
    from notifiers.silences.store import Silences

logger = logging.getLogger(__name__)

PREFIX = "/api/v2/silence/"
_UUID = re.compile(
    r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.IGNORECASE
)
_ORDER = {"active": 0, "pending": 1, "expired": 2}


class SilenceHandlers:
    """The handlers over one store. `clock` gives unix milliseconds."""

    def __init__(self, silences: Silences, clock: Callable[[], int]) -> None:
        self._silences = silences
        self._clock = clock

    def listed(self, request: Request) -> Response:
        """All silences that have the matchers of `filter` among theirs, and a creator of
        `creator`.
        """  # noqa: D205 - one sentence
        wanted = matchers_of(request)
        creators = request.parameters.get("creator", ())
        now_ms = self._clock()
        found = [
            one
            for one in self._silences.listed(now_ms)
            if _has(one, wanted) and (not creators or one.created_by in creators)
        ]
        return answered([silence_to_json(one, now_ms) for one in in_order(found, now_ms)])

    def post(self, request: Request) -> Response:
        """Make a silence, or change the one whose id is given."""
        wanted = _posted(request)
        now_ms = self._clock()
        if wanted.starts_at_ms >= wanted.ends_at_ms:
            message = "Failed to create silence: start time must be before end time"
            raise RequestError(400, message)
        if wanted.ends_at_ms < now_ms:
            raise RequestError(400, "Failed to create silence: end time can't be in the past")
        try:
            made = self._silences.add(wanted, now_ms)
        except UnknownSilenceError as error:
            raise RequestError(404, str(error)) from error
        except SilenceError as error:
            raise RequestError(400, str(error)) from error
        until = format_rfc3339(made.ends_at_ms)
        logger.info("silence %s of %s until %s", made.id, inert(made.created_by), until)
        return answered({"silenceID": made.id})

    def get(self, request: Request) -> Response:
        """One silence; nothing but the status 404 where there is none."""
        now_ms = self._clock()
        try:
            found = self._silences.get(_id(request), now_ms)
        except UnknownSilenceError:
            return empty(404)
        return answered(silence_to_json(found, now_ms))

    def delete(self, request: Request) -> Response:
        """End a silence."""
        try:
            ended = self._silences.expire(_id(request), self._clock())
        except UnknownSilenceError:
            return empty(404)
        logger.info("silence %s ended", ended.id)
        return empty(200)


def in_order(silences: Sequence[Silence], now_ms: int) -> list[Silence]:
    """Active ones by their end, pending ones by their start, expired ones from the last on."""

    def place(one: Silence) -> tuple[int, int]:
        state = one.state(now_ms)
        times = {"active": one.ends_at_ms, "pending": one.starts_at_ms, "expired": -one.ends_at_ms}
        return _ORDER[state], times[state]

    return sorted(silences, key=place)


def _has(silence: Silence, wanted: Sequence[Matcher]) -> bool:
    return all(matcher in silence.matchers for matcher in wanted)


def _id(request: Request) -> str:
    identity = request.path.removeprefix(PREFIX)
    if not _UUID.fullmatch(identity):
        message = f'silenceID in path must be of type uuid: "{inert(identity)}"'
        raise RequestError(422, message, code=INVALID_TYPE)
    return identity


def _posted(request: Request) -> Silence:
    if request.content_type != JSON:
        message = (
            f'unsupported media type "{inert(request.content_type)}", only [{JSON}] are allowed'
        )
        raise RequestError(415, message, code=415)
    if not request.body:
        raise RequestError(422, "silence in body is required", code=REQUIRED)
    try:
        return PostableSilence.model_validate_json(request.body).silence()
    except ValidationError as error:
        raise invalid_body(error) from error
    except PatternError as error:
        raise RequestError(400, f"invalid silence: invalid regular expression: {error}") from error
