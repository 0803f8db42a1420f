"""Label patterns are RE2, as in Prometheus: the whole value must match, and `.` is any character.

RE2 itself (google-re2) does the matching: same syntax as Go's, and no backtracking, so a pattern
from a rule file cannot stall the agent. Literals and alternations of literals skip it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable

_SPECIAL = re.compile(r"[\\.+*?()\[\]{}^$]")
# C++ RE2 reads \C as "any byte"; Go's refuses it.
_ANY_BYTE = re.compile(r"(?:[^\\]|\\[^C])*(\\C)")
_HINTS: Final = {
    "invalid perl operator": "RE2 has no lookahead or lookbehind; use a second matcher with !~",
    "invalid named capture group": "write (?P<name>...)",
    "invalid repetition size": "RE2 repeats at most 1000 times",
    "bad repetition operator": "RE2 has no possessive repetition; repeat once only",
    "no argument for repetition operator": 'for "anything" write .*; a literal * is \\\\*',
    "missing ]": "close the character class with ], or escape a literal [ as \\\\[",
    "missing )": "close the group with ), or escape a literal ( as \\\\(",
    "unexpected )": "open the group with (, or escape a literal ) as \\\\)",
    "trailing \\": "a literal backslash is written \\\\\\\\",
    "invalid character class range": "a range goes from the lower to the higher character",
    "invalid escape sequence": "RE2 has no such escape, and no backreferences",
}


class PatternError(StallwatchError):
    """RE2 refuses the pattern. `fragment` is the part at fault, "" if unknown."""

    def __init__(self, message: str, fragment: str) -> None:
        super().__init__(message)
        self.fragment = fragment
        self.hint = next((h for start, h in _HINTS.items() if message.startswith(start)), "")


@lru_cache(maxsize=4096)
def compile_matcher(pattern: str) -> Callable[[str], bool]:
    """A predicate: does the whole value match the RE2 pattern?

    Raises PatternError.
    """
    literals = alternatives(pattern)
    if literals is not None:
        return literals.__contains__
    compiled = _compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None


def alternatives(pattern: str) -> frozenset[str] | None:
    """The values matched by a pattern that is plain text, or plain texts between `|`; else None.

    A store can look these up instead of trying every value.
    """
    if _SPECIAL.search(pattern):
        return None
    return frozenset(pattern.split("|"))


def compile_search(pattern: str) -> Any:
    """The pattern to be searched for in a text, `.` being any character but a line end.

    Raises PatternError.
    """
    return _compile(pattern, dot_nl=False)


def _compile(pattern: str, *, dot_nl: bool = True) -> Any:
    import re2  # most rule files have literals only

    any_byte = _ANY_BYTE.match(pattern)
    if any_byte is not None:
        raise PatternError("invalid escape sequence", any_byte[1])
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = dot_nl
    # A long list of nodes needs more than RE2's usual 8 MiB.
    options.max_mem = 64 << 20
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise PatternError("not valid Unicode", pattern[error.start : error.end]) from None
    except re2.error as error:
        raw = error.args[0] if error.args else ""
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        message, _, fragment = text.partition(": ")
        raise PatternError(message, fragment) from None
