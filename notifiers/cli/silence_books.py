"""Where a command finds the silences: a running agent, or its state.db where none runs."""

from __future__ import annotations

import json
import sqlite3
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import TypeAdapter, ValidationError

from engine.alerts.wording import inert
from engine.http.client import NoAgentError, exchange
from engine.state.shelter import present
from notifiers.silences.encoding import GettableSilence, silence_to_post
from notifiers.silences.store import Silences, UnknownSilenceError
from notifiers.worker import unix_ms
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

    from notifiers.silences.silence import Silence

_LISTED = TypeAdapter(list[GettableSilence])


class SilenceBook(Protocol):
    """Silences that can be read and changed. Every method raises StallwatchError."""

    def listed(self) -> list[Silence]:
        """All, also those that expired lately."""
        ...

    def add(self, wanted: Silence) -> str:
        """Store one; the id that it got."""
        ...

    def expire(self, identity: str) -> None:
        """End one now."""
        ...


class AgentBook:
    """The silences of a running agent, through its API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def check(self) -> None:
        """Raise NoAgentError where nobody answers, and StallwatchError where somebody else does."""
        self._ask("/api/v2/status")

    def listed(self) -> list[Silence]:
        """From GET /api/v2/silences."""
        body = self._ask("/api/v2/silences")
        try:
            return [one.silence() for one in _LISTED.validate_json(body)]
        except ValidationError as error:
            raise self._no_agent() from error

    def add(self, wanted: Silence) -> str:
        """By POST /api/v2/silences."""
        posted = json.dumps(silence_to_post(wanted)).encode()
        body = self._ask("/api/v2/silences", "POST", posted)
        try:
            return str(json.loads(body)["silenceID"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._no_agent() from error

    def expire(self, identity: str) -> None:
        """By DELETE /api/v2/silence/ID."""
        self._ask(f"/api/v2/silence/{identity}", "DELETE")

    def _ask(self, path: str, method: str = "GET", body: bytes | None = None) -> bytes:
        status, answer = exchange(self._url, path, method, body)
        if status == HTTPStatus.OK:
            return answer
        if status == HTTPStatus.NOT_FOUND and not answer:
            raise UnknownSilenceError(path.rpartition("/")[2])
        said = _message(answer)
        if not said:
            raise self._no_agent()
        raise StallwatchError(f"stallwatch: {self._url} refuses: {inert(said, 500)}")

    def _no_agent(self) -> StallwatchError:
        return StallwatchError(
            f"stallwatch: {self._url} does not answer as an agent does\n"
            "    hint: --url names another address"
        )


class StoredBook:
    """The silences in a state.db, for an agent that does not run."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise StallwatchError(
                f"stallwatch: there is no {path}\n"
                "    hint: the agent makes it at its first start; --state names its directory"
            )
        self._path = path
        try:
            self._silences = Silences(str(present(path)))
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def listed(self) -> list[Silence]:
        """From the table."""
        try:
            return self._silences.listed(unix_ms())
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def add(self, wanted: Silence) -> str:
        """Into the table."""
        try:
            return self._silences.add(wanted, unix_ms()).id
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def expire(self, identity: str) -> None:
        """In the table."""
        try:
            self._silences.expire(identity, unix_ms())
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def _broken(self, error: sqlite3.Error) -> StallwatchError:
        return StallwatchError(f"stallwatch: {self._path}: cannot be used: {error}")


def open_book(url: str, path: Path | None) -> tuple[SilenceBook, str]:
    """The agent at `url`, or, where none answers, the database at `path`; then also a notice.

    `path` None: only an agent will do.
    """
    agent = AgentBook(url)
    try:
        agent.check()
    except NoAgentError:
        if path is None:
            raise
        notice = f"no agent answers at {url}: using {path}, for the agent that runs on it next"
        return StoredBook(path), notice
    return agent, ""


def _message(answer: bytes) -> str:
    """The text of an error of the API, "" where it is none."""
    try:
        said: Any = json.loads(answer)
    except ValueError:
        return ""
    if isinstance(said, dict):
        said = said.get("message")
    return said if isinstance(said, str) else ""
