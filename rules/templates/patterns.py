"""`match` and `reReplaceAll`: RE2, as in Prometheus, so that no pattern can stall the agent."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from rules.promql.regex import PatternError, compile_search
from rules.templates.errors import TemplateError

LONGEST_PATTERN = 1_000
LONGEST = 1_000_000
_REFERENCE = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})")


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere. Raises TemplateError."""
    return _compiled(pattern).search(text) is not None


def replace_all(pattern: str, template: str, text: str) -> str:
    """Every match replaced; `$1`, `${1}` and `$name` stand for groups. Raises TemplateError.

    As in Go an empty match right behind another match is none, and what is no group is empty.
    """
    out: list[str] = []
    end = length = 0
    for match in _compiled(pattern).finditer(text):
        start, stop = match.span()
        if start == stop == end and end > 0 and out:
            continue
        out += [text[end:start], _filled(template, match)]
        end = stop
        length += len(out[-1])
        if length > LONGEST:
            raise TemplateError(f"reReplaceAll: more than {LONGEST:,} characters")
    return "".join([*out, text[end:]])


def _filled(template: str, match: Any) -> str:
    def group(reference: re.Match[str]) -> str:
        if reference.group() == "$$":
            return "$"
        name = reference[1] or reference[2]
        try:
            return match.group(int(name) if name.isdecimal() else name) or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(group, template)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    if len(pattern) > LONGEST_PATTERN:
        raise TemplateError(f"a regular expression above {LONGEST_PATTERN} characters")
    try:
        return compile_search(pattern)
    except PatternError as error:
        at = f": `{error.fragment[:60]}`" if error.fragment else ""
        raise TemplateError(f"not a regular expression: {error}{at}", hint=error.hint) from None
