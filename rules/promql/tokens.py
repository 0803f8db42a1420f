"""The words and symbols of PromQL."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rules.source import Span


class Kind(Enum):
    """What a token is."""

    NUMBER = auto()
    DURATION = auto()
    STRING = auto()
    NAME = auto()
    """A word, keywords included: most of them may name a metric or label too."""
    SYMBOL = auto()
    BAD = auto()
    """Text that is no token of the language; `message` and `hint` say why."""
    END = auto()


class Token(NamedTuple):
    """One token.

    `text` is as written. `word`: the lower-case text of a NAME, else "": keywords are read in any
    case. `symbol`: the text of a SYMBOL, else "". `value`: a number's float, a duration's
    milliseconds, a string's characters with escapes resolved.
    """

    kind: Kind
    text: str
    span: Span
    word: str = ""
    symbol: str = ""
    value: float | int | str = ""
    message: str = ""
    hint: str = ""

    def is_symbol(self, *symbols: str) -> bool:
        """Whether this is one of these symbols."""
        return self.symbol in symbols

    @property
    def described(self) -> str:
        """How a message names this token."""
        match self.kind:
            case Kind.END:
                return "end of expression"
            case Kind.NUMBER:
                return f"number {self.text}"
            case Kind.DURATION:
                return f"duration {self.text}"
            case Kind.STRING:
                return f"string {shorten(self.text)}"
            case _:
                return f'"{shorten(self.text)}"'


def shorten(text: str, limit: int = 60) -> str:
    """The text on one line, cut to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


SET_OPERATORS: Final = ("and", "or", "unless")
# Cut a native histogram off above or below a value.
TRIM_OPERATORS: Final = ("</", ">/")
COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
MATCH_OPERATORS: Final = ("=", "!=", "=~", "!~")

# Increasing precedence; all associate to the left but `^`. A unary sign binds like `*`.
PRECEDENCE: Final = {
    "or": 1,
    "and": 2,
    "unless": 2,
    **dict.fromkeys((*COMPARISONS, *TRIM_OPERATORS), 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
    "atan2": 5,
    "^": 6,
}
RIGHT_ASSOCIATIVE: Final = frozenset({"^"})
UNARY_PRECEDENCE: Final = 6

MATCHING_WORDS: Final = frozenset({"on", "ignoring"})
GROUP_WORDS: Final = frozenset({"group_left", "group_right"})
GROUPING_WORDS: Final = frozenset({"by", "without"})
FILL_WORDS: Final = frozenset({"fill", "fill_left", "fill_right"})
RANGE_MODIFIERS: Final = frozenset({"anchored", "smoothed"})
NUMBER_WORDS: Final = frozenset({"inf", "nan"})

# Words that never name a metric where an expression starts. Every other keyword may.
RESERVED: Final = MATCHING_WORDS | GROUP_WORDS | frozenset({"bool", "atan2"})
# Words that Prometheus does not read as a label in by (...), on (...) and so on.
NOT_LABELS: Final = NUMBER_WORDS | frozenset({"without"})
KEYWORDS: Final = (
    RESERVED | GROUPING_WORDS | frozenset(SET_OPERATORS) | RANGE_MODIFIERS | frozenset({"offset"})
)
