"""Jinja templates for messages: read here, expanded by a process of its own, escaped here."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rules.source import Problem
from rules.templates.errors import TemplateError
from rules.templates.marks import as_value, runs, unmarked
from rules.templates.message_values import KV, Alerts
from rules.templates.moments import Moment
from rules.templates.values import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rules.source import Source
    from rules.templates.machine import Printed

MESSAGE_SECONDS = 20.0
_PROCESS = "rules.templates.jinja_process"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class _Allowance:
    """How long the expansions of one message may still take."""

    def __init__(self) -> None:
        self.seconds = MESSAGE_SECONDS


_ALLOWANCE: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def one_message() -> Iterator[None]:
    """Whatever is expanded meanwhile takes MESSAGE_SECONDS at the most, all together."""
    token = _ALLOWANCE.set(_Allowance())
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


class JinjaTemplate:
    """A receiver's text in Jinja. `files`: those that it may include, by name."""

    __slots__ = ("_files", "text")

    def __init__(self, text: str, files: Mapping[str, Source]) -> None:
        """Raises TemplateError when the text cannot be read."""
        from rules.templates.jinja_sandbox import check

        self.text = text
        self._files = {name: source.text for name, source in files.items()}
        check(text, self._files, whole=True)

    def expand(self, data: Any, printed: Printed | None = None) -> str:
        """The text for a message's data. Raises TemplateError, which says where it failed."""
        asked = {"template": self.text, "files": self._files, "data": described(data)}
        text = _expanded(asked)
        if printed is None:
            return unmarked(text)
        return "".join(
            printed.literal(piece) if written else printed.value(piece, piece)
            for written, piece in runs(text)
        )


def checked(files: Mapping[str, Source]) -> tuple[Problem, ...]:
    """What is wrong in the files, each at its place."""
    texts = {name: source.text for name, source in files.items()}
    found = (_problem(source, texts) for source in files.values())
    return tuple(problem for problem in found if problem is not None)


def _problem(source: Source, texts: Mapping[str, str]) -> Problem | None:
    from rules.templates.jinja_sandbox import check

    try:
        check(source.text, texts, whole=False)
    except TemplateError as error:
        return Problem(source, error.span, error.message, error.hint, "template")
    return None


def described(value: Any) -> Any:
    """A message's data as JSON, in Python's spelling: `GroupLabels` is `group_labels`."""
    match value:
        case Struct():
            fields = {
                _WORD.sub("_", name).lower(): described(one) for name, one in value.fields.items()
            }
            return {"struct": fields}
        case Alerts():
            return {"alerts": [described(alert) for alert in value]}
        case KV():
            return {"labels": {as_value(name): as_value(text) for name, text in value.items()}}
        case Moment():
            return {"moment": value.nanoseconds}
        case _:
            return as_value(str(value))


def _expanded(asked: dict[str, Any]) -> str:
    allowance = _ALLOWANCE.get() or _Allowance()
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", _PROCESS],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=max(0.0, allowance.seconds),
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
    except subprocess.TimeoutExpired:
        raise TemplateError(f"more than {MESSAGE_SECONDS:g} s for one message") from None
    except OSError as error:
        raise TemplateError(f"Jinja could not be started: {error.strerror}") from None
    finally:
        allowance.seconds -= time.monotonic() - began
    if done.returncode == -signal.SIGXCPU:
        raise TemplateError("more processor time than a template may take")
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TemplateError(f"Jinja ended with status {done.returncode}: {said}")
    answer: dict[str, str] = json.loads(done.stdout)
    if "failed" in answer:
        raise TemplateError(unmarked(answer["failed"]))
    return answer["text"]
