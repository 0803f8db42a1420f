"""Label matchers compiled: does a label set satisfy all of them?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.labels import Labels
    from rules.promql.ast import Matcher

# RE2 spells POSIX classes inside brackets; Python's re does not know them.
_POSIX_CLASSES = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:space:]": r"\t\n\v\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """An RE2 pattern as a Python one, to be used with `fullmatch`; `.` matches newlines too.

    Classes are ASCII, as in RE2: a digit is 0-9 only.
    """
    for name, members in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, members)
    return re.compile(pattern.replace(r"\z", r"\Z"), re.DOTALL | re.ASCII)


def _predicate(matcher: Matcher) -> Callable[[str], bool]:
    expected = matcher.value
    if matcher.op == "=":
        return expected.__eq__
    if matcher.op == "!=":
        return expected.__ne__
    pattern = compile_pattern(expected)
    if matcher.op == "=~":
        return lambda value: pattern.fullmatch(value) is not None
    return lambda value: pattern.fullmatch(value) is None


class Selection:
    """Matchers ready to be asked. A label that is absent has the value ""."""

    __slots__ = ("_predicates", "name")

    def __init__(self, matchers: Iterable[Matcher]) -> None:
        self.name = ""
        self._predicates: list[tuple[str, Callable[[str], bool]]] = []
        for matcher in matchers:
            if matcher.label == METRIC_NAME and matcher.op == "=" and matcher.value:
                self.name = matcher.value
            self._predicates.append((matcher.label, _predicate(matcher)))

    def accepts(self, labels: Labels) -> bool:
        """True if every matcher holds."""
        return all(holds(labels.get(label)) for label, holds in self._predicates)


def matcher_key(matchers: Sequence[Matcher]) -> tuple[tuple[str, str, str], ...]:
    """What makes two matcher lists the same question, wherever they are written."""
    return tuple((matcher.label, matcher.op, matcher.value) for matcher in matchers)
