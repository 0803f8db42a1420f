"""`/api/v1/notify/`: what Alertmanager's API has no word for. Answers in Prometheus' envelope."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.alerts.alert import Acknowledgement
from engine.alerts.matchers import MatcherError, all_match, parse_matchers
from engine.alerts.wording import inert
from engine.http.message import JSON, ApiError, success
from engine.http.paths import ACKNOWLEDGE, MESSAGES, RESEND, WITHDRAW
from engine.state.connection import StateConnection
from notifiers.acknowledgements import acknowledge, withdraw
from notifiers.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from engine.alerts.matchers import Matcher
    from engine.http.message import Handler, Request, Response
    from engine.labels import Labels
    from engine.state.file import StateFile
    from notifiers.entry import Entry

logger = logging.getLogger(__name__)

# Of an author and a comment together; a silence may be as large.
MAX_TEXT_CHARACTERS = 16_384


class ResendRequest(BaseModel):
    """Which messages to send again: by `ids`, or all that were given up."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    ids: list[str] = []
    all: bool = False


class WithdrawRequest(BaseModel):
    """Whose acknowledgement is taken back, by matchers in Alertmanager's spelling."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    matchers: list[str] = Field(min_length=1)

    def parsed(self) -> tuple[Matcher, ...]:
        """The matchers. Raises ApiError."""
        try:
            found = tuple(one for text in self.matchers for one in parse_matchers(text))
        except MatcherError as error:
            raise ApiError("bad_data", f"matchers: {error}") from error
        if all_match(found, {}):
            raise ApiError("bad_data", "matchers: at least one has to ask for something")
        return found


class AcknowledgeRequest(WithdrawRequest):
    """Who has seen what fires and matches."""

    author: str = Field(min_length=1, max_length=MAX_TEXT_CHARACTERS)
    comment: str = Field(default="", max_length=MAX_TEXT_CHARACTERS)


class NotifyApi:
    """The routes over a state.db. Safe to call from several threads.

    `known`: keys of the integrations that there are. `wake`: called when there is something to do.
    `clock`: unix milliseconds.
    """

    def __init__(
        self,
        state: StateFile,
        known: Collection[str],
        wake: Callable[[], None],
        clock: Callable[[], int],
    ) -> None:
        self._state = state
        self._known = known
        self._wake = wake
        self._clock = clock
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", MESSAGES): self._messages,
            ("POST", RESEND): self._resend,
            ("POST", ACKNOWLEDGE): self._acknowledge,
            ("POST", WITHDRAW): self._withdraw,
        }

    def handle(self, request: Request) -> Response:
        """Answer. Raises ApiError."""
        handler = self._routes.get((request.method, request.path))
        if handler is None:
            raise ApiError("not_found", f"there is no {request.method} {request.path}")
        try:
            return handler(request)
        except sqlite3.Error as error:
            logger.warning("answering %s failed: %s", request.path, error)
            message = f"the outbox cannot be read or written: {error}"
            raise ApiError("unavailable", message) from error

    def _messages(self, request: Request) -> Response:
        """Those with an `id`; more than one may be given."""
        outbox = Outbox(self._state)
        try:
            found = (outbox.entry(one) for one in request.parameters.get("id", ()))
            return success([record(entry) for entry in found if entry is not None])
        finally:
            outbox.close()

    def _resend(self, request: Request) -> Response:
        wanted = body_of(request, ResendRequest)
        if wanted.all == bool(wanted.ids):
            raise ApiError("bad_data", "either 'ids' or 'all'")
        outbox = Outbox(self._state)
        try:
            ids = None if wanted.all else wanted.ids
            resent = outbox.resend(ids, self._known, self._clock())
        finally:
            outbox.close()
        self._wake()
        for one in resent:
            if not one.refused:
                logger.info("message %s to %s is sent again on demand", one.id, one.integration)
        return success(
            [
                {"id": one.id, "integration": one.integration, "refused": one.refused}
                for one in resent
            ]
        )

    def _acknowledge(self, request: Request) -> Response:
        wanted = body_of(request, AcknowledgeRequest)
        given = Acknowledgement(wanted.author, wanted.comment, self._clock())
        matchers = wanted.parsed()
        found = self._write(lambda connection: acknowledge(connection, matchers, given))
        for labels in found:
            logger.info("%s has seen %s", inert(given.author), inert(str(labels)))
        return success([labels.to_dict() for labels in found])

    def _withdraw(self, request: Request) -> Response:
        matchers = body_of(request, WithdrawRequest).parsed()
        found = self._write(lambda connection: withdraw(connection, matchers))
        return success([labels.to_dict() for labels in found])

    def _write(self, what: Callable[[sqlite3.Connection], list[Labels]]) -> list[Labels]:
        own = StateConnection(self._state, "FULL")
        try:
            with own.writing() as connection:
                found = what(connection)
        finally:
            own.close()
        self._wake()
        return found


def body_of(request: Request, model: type[Any]) -> Any:
    """The body of a request, read as `model`. Raises ApiError.

    JSON only: a form is what a page of somebody else could make a browser send.
    """
    if request.content_type != JSON:
        raise ApiError("bad_data", f"a body must be {JSON}")
    try:
        return model.model_validate_json(request.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ApiError("bad_data", f"{place}: {first['msg']}" if place else first["msg"]) from error


def record(entry: Entry) -> dict[str, Any]:
    """What became of a message so far."""
    return {
        "id": entry.id,
        "integration": entry.integration,
        "state": entry.state,
        "attempts": entry.attempts,
        "reason": entry.reason,
        "detail": entry.detail,
    }
