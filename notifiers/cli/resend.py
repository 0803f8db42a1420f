"""`stallwatch notify dead --resend`: send again what was given up, and say what became of it."""

from __future__ import annotations

import json
import sys
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from engine.address import local_url
from engine.alerts.wording import inert
from engine.http.client import NoAgentError, exchange
from engine.http.paths import MESSAGES, RESEND
from notifiers.integrations import integrations
from notifiers.outbox import Outbox
from notifiers.worker import unix_ms
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.config.model import Config

# How long a command waits for a running agent to have sent.
PATIENCE_SECONDS = 15.0
_POLL_SECONDS = 0.2
_IDS_A_REQUEST = 50


class _Resent(BaseModel):
    id: str
    integration: str
    refused: str


class _Message(BaseModel):
    id: str
    state: str
    reason: str
    detail: str


class _ResentAnswer(BaseModel):
    data: list[_Resent]


_MESSAGES = TypeAdapter(dict[str, Any])


def show_resent(
    config: Config,
    path: Path,
    ids: Sequence[str] | None,
    *,
    url: str | None = None,
    as_json: bool = False,
) -> int:
    """Send again and print a line each; `ids` None: all. 1 if one is not sent or not taken.

    The running agent does it; where none runs, the one that runs next on `path`. `url`: another
    agent, which has to run. Raises StallwatchError.
    """
    is_another, url = url is not None, url or local_url(config.listen)
    try:
        resent = _asked_for(url, ids)
    except NoAgentError:
        if is_another:
            raise
        resent = _written_down(config, path, ids)
        found = {}
        print(
            f"stallwatch: no agent answers at {url}: the one that runs on {path} next sends them",
            file=sys.stderr,
        )
    else:
        found = _await(url, [one.id for one in resent if not one.refused])
    said = [(one, *_became(one, found.get(one.id))) for one in resent]
    if as_json:
        rows = [
            {"id": one.id, "integration": one.integration, "state": state, "reason": why}
            for one, state, why in said
        ]
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(_line(*each) for each in said) or "nothing is dead")
    return 1 if any(state in {"not sent", "failed"} for _, state, _ in said) else 0


def _line(one: _Resent, state: str, why: str) -> str:
    whose = f"{inert(one.id)}  {inert(one.integration)}".strip()
    return f"{state:<9}  {whose}{why and f': {inert(why)}'}"


def _became(one: _Resent, message: _Message | None) -> tuple[str, str]:
    """(state, why)."""
    if one.refused:
        return "not sent", one.refused
    if message is None or message.state == "pending":
        why = "" if message is None else message.detail or message.reason
        return "waits", why
    return message.state, message.detail or message.reason


def _asked_for(url: str, ids: Sequence[str] | None) -> list[_Resent]:
    body = {"all": True} if ids is None else {"ids": list(ids)}
    status, answer = exchange(url, RESEND, "POST", json.dumps(body).encode())
    try:
        return _ResentAnswer.model_validate_json(answer).data
    except ValidationError as error:
        said = _error(answer)
        if said:
            raise StallwatchError(f"stallwatch: {url} refuses: {inert(said, 500)}") from error
        raise StallwatchError(
            f"stallwatch: {url} answers HTTP {status}, and not as an agent does"
        ) from error


def _error(answer: bytes) -> str:
    try:
        said = json.loads(answer).get("error", "")
    except (ValueError, AttributeError):
        return ""
    return said if isinstance(said, str) else ""


def _written_down(config: Config, path: Path, ids: Sequence[str] | None) -> list[_Resent]:
    known = [one.key for one in integrations(config)]
    if not path.exists():
        raise StallwatchError(
            f"stallwatch: there is no outbox at {path}\n"
            "    hint: the agent makes it at its first start; --state names its directory"
        )
    outbox = Outbox(str(path))
    try:
        outbox.create()
        resent = outbox.resend(ids, known, unix_ms())
    finally:
        outbox.close()
    return [_Resent(id=one.id, integration=one.integration, refused=one.refused) for one in resent]


def _await(url: str, ids: Sequence[str]) -> dict[str, _Message]:
    """Each message as it stands when none waits any more, or patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: dict[str, _Message] = {}
    while ids:
        for start in range(0, len(ids), _IDS_A_REQUEST):
            some = ids[start : start + _IDS_A_REQUEST]
            query = urllib.parse.urlencode([("id", one) for one in some])
            _, answer = exchange(url, f"{MESSAGES}?{query}")
            rows = _MESSAGES.validate_json(answer).get("data", [])
            found |= {row["id"]: _Message.model_validate(row) for row in rows}
        waiting = [one for one in ids if one in found and found[one].state == "pending"]
        if not waiting or time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    return found
