"""Which characters of an expanded text its author wrote, told by the characters themselves.

Jinja has strings and no way to see where a piece of one came from. So what an author wrote is moved
into a plane of private use, where no value can be: whatever a macro, a filter or a slice does with
a text then, a character of a label stays known as one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Unicode's planes 15 and 16; the characters of the first plane go into plane 15.
_MARK = 0xF0000
_FIRST_PLANE = 0x10000
# Emoji and the like have no mark. They are markup nowhere, and belong to what stands before them.
_RUNS = re.compile(
    "([\U000f0000-\U000fffff][\U00010000-\U000fffff]*)|([^\U000f0000-\U000fffff]+)", re.DOTALL
)
_PRIVATE = re.compile("[\U000f0000-\U0010ffff]")
_SPACES = " \t\n\r\v\f"


def marked(text: str) -> str:
    """The text as its author's."""
    return "".join(chr(ord(char) + _MARK) if ord(char) < _FIRST_PLANE else char for char in text)


def unmarked(text: str) -> str:
    """The text as it is read."""
    return "".join(chr(ord(char) - _MARK) if ord(char) >= _MARK else char for char in text)


def as_value(text: str) -> str:
    """A text without characters that could be taken for marked ones."""
    return text if text.isascii() else _PRIVATE.sub("\ufffd", text)


def stripped(text: str) -> str:
    """The text without white space at its ends, whoever wrote it."""
    return text.strip(_SPACES + marked(_SPACES))


def runs(text: str) -> Iterator[tuple[bool, str]]:
    """Its pieces in order: whether the author wrote one, and what it reads."""
    pieces: list[tuple[bool, list[str]]] = []
    for found in _RUNS.finditer(text):
        written = found.group(1) is not None
        if not pieces or pieces[-1][0] != written:
            pieces.append((written, []))
        pieces[-1][1].append(found.group())
    for written, piece in pieces:
        yield written, unmarked("".join(piece))
