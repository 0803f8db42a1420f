"""Expands one Jinja template: JSON on standard input, JSON on standard output.

It runs in a process of its own that the kernel bounds: Jinja's sandbox keeps a template from the
machine, and not from an endless loop or from all of its memory.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from jinja2 import TemplateNotFound

from rules.templates.jinja_sandbox import environment
from rules.templates.moments import Moment

CPU_SECONDS = 3
MEMORY_BYTES = 512 * 2**20
LONGEST_OUTPUT = 1_000_000


class Labels(dict[str, str]):
    """Labels or annotations; one that is missing is empty."""

    def __missing__(self, name: str) -> str:
        return ""


class Alerts(list[Any]):
    """The alerts that are told, the worst first."""

    @property
    def firing(self) -> Alerts:
        """Those that fire."""
        return Alerts(alert for alert in self if alert["status"] == "firing")

    @property
    def resolved(self) -> Alerts:
        """Those that are over."""
        return Alerts(alert for alert in self if alert["status"] == "resolved")


def main() -> None:
    """Answer what is asked there: `{"text": ...}`, or `{"failed": why}`."""
    _bound()
    try:
        answer = {"text": expanded(json.load(sys.stdin.buffer))}
    except Exception as error:  # noqa: BLE001 - whatever a template raises is told, and costs only itself
        answer = {"failed": _told(error)}
    json.dump(answer, sys.stdout)


def expanded(asked: dict[str, Any]) -> str:
    """The text of `template` for `data`; its author's characters are marked."""
    template = environment(asked["files"]).from_string(asked["template"])
    pieces: list[str] = []
    length = 0
    for piece in template.generate(_value(asked["data"])):
        length += len(piece)
        if length > LONGEST_OUTPUT:
            raise ValueError(f"more than {LONGEST_OUTPUT:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _value(described: Any) -> Any:
    """What `jinja.described` made, as a template sees it."""
    if not isinstance(described, dict):
        return described
    ((kind, inner),) = described.items()
    match kind:
        case "struct":
            return {name: _value(value) for name, value in inner.items()}
        case "alerts":
            return Alerts(map(_value, inner))
        case "labels":
            return Labels(inner)
        case _:
            return Moment(inner)


def _told(error: Exception) -> str:
    """What went wrong, at its line."""
    if isinstance(error, MemoryError):
        said = f"more than {MEMORY_BYTES // 2**20} MiB of memory"
    elif isinstance(error, RecursionError):
        said = "nested too deeply"
    elif isinstance(error, TemplateNotFound):
        said = f"there is no template '{error}'"
    else:
        said = str(error) or type(error).__name__
    place = ""
    walked = error.__traceback__
    while walked is not None:
        # Jinja puts such frames in the place of those of the code that it made.
        if "__jinja_exception__" in walked.tb_frame.f_globals:
            name = walked.tb_frame.f_code.co_filename
            place = (
                f"line {walked.tb_lineno}: " if name[0] == "<" else f"{name}:{walked.tb_lineno}: "
            )
        walked = walked.tb_next
    return f"{place}{said[:1000]}"


def _bound() -> None:
    """Have the kernel end this process when it takes too much."""
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        above = most + (kind == resource.RLIMIT_CPU)  # first SIGXCPU, which tells what it was
        ceiling = above if hard == resource.RLIM_INFINITY else min(above, hard)
        resource.setrlimit(kind, (min(most, ceiling), ceiling))


if __name__ == "__main__":
    main()
