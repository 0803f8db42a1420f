"""How a command is told which alerts it is about, and who it is that asks."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from engine.alerts.matchers import Matcher, parse_matchers

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_matchers(words: Iterable[str]) -> tuple[Matcher, ...]:
    """The matchers of arguments; one without an operator names an alert. Raises MatcherError."""
    return tuple(matcher for word in words for matcher in _matchers_of(word))


def _matchers_of(word: str) -> tuple[Matcher, ...]:
    if word and not any(char in word for char in '=!~{}"'):
        return (Matcher("alertname", "=", word),)
    return parse_matchers(word)


def login_name() -> str:
    """Who is at the terminal, behind sudo too."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container's bare uid
        return f"uid {os.getuid()}"
