"""Patterns with groups, as `label_replace` needs them: RE2, and Go's replacement templates."""

from __future__ import annotations

import re
from functools import lru_cache

import re2

from rules.errors import StallwatchError

_TEMPLATE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<bare>\w+))", re.ASCII)


class PatternError(StallwatchError):
    """RE2 refuses a pattern."""


class Pattern:
    """A pattern that must match the whole text; a dot matches a newline, as in Prometheus."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.dot_nl = True
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise PatternError(str(error)) from error

    def expand(self, template: str, text: str) -> str | None:
        """Go's Regexp.Expand: `$1`, `${1}`, `$name`, `$$`; an unknown group is empty.

        None if the text does not match.
        """
        match = self._compiled.fullmatch(text)
        if match is None:
            return None
        groups, names = self._compiled.groups, self._compiled.groupindex

        def group(reference: re.Match[str]) -> str:
            if reference["dollar"]:
                return "$"
            name = reference["braced"] or reference["bare"]
            number = int(name) if name.isdecimal() else names.get(name, groups + 1)
            return (match[number] or "") if number <= groups else ""

        return _TEMPLATE.sub(group, template)


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Pattern:
    """The pattern, compiled once. Raises PatternError."""
    return Pattern(pattern)
