"""Where each character of a YAML scalar's value stands in the file.

A value is rarely a slice of its file: quotes are doubled, escapes stand for one character, line
ends fold to spaces, indentation is stripped. The walks below follow YAML 1.1's productions for
flow scalars (chapter 9.1 and 9.2) and block scalars (9.3) and keep, for each character that they
emit, the offset that it came from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

# One emitted character and the offset it came from.
_Emitted = list[tuple[str, int]]

_BREAKS = "\r\n\x85\u2028\u2029"
_BLANKS = " \t"
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_PROPERTIES = re.compile(r"(?:[&!][^\s]*(?:[ \t]+#[^\n]*|\s+|$))*")


def content_start(text: str, start: int, end: int) -> int:
    """Past the anchor and tag that a YAML parser counts as part of a node."""
    if start < end and text[start] not in "&!#":
        return start
    found = _PROPERTIES.match(text, start, end)
    offset = found.end() if found else start
    while offset < end and text[offset] == "#":
        newline = text.find("\n", offset, end)
        offset = end if newline < 0 else newline + 1
        while offset < end and text[offset].isspace():
            offset += 1
    return offset


class Offsets(Sequence[int]):
    """What `value_offsets` gives, worked out when it is first looked at: few values are wrong."""

    def __init__(self, text: str, start: int, end: int, style: str, value: str) -> None:
        self._scalar = (text, start, end, style, value)
        self._known: tuple[int, ...] | None = None

    @property
    def _offsets(self) -> tuple[int, ...]:
        if self._known is None:
            self._known = value_offsets(*self._scalar)
        return self._known

    def __len__(self) -> int:
        """One more than the value's length: its end has an offset, too."""
        return len(self._scalar[-1]) + 1

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """The offset of one character, or of some."""
        return self._offsets[index]


def value_offsets(text: str, start: int, end: int, style: str, value: str) -> tuple[int, ...]:
    """The offset in `text` of each character of `value`, and that of its end.

    `[start, end)` is the scalar in `text`, quotes or block header included; `style` is one of
    `'`, `"`, `|`, `>` or "" (plain).
    """
    if style in {"|", ">"}:
        emitted, last = _block(text, start, end, style, value)
    elif style == '"':
        emitted, last = _double_quoted(text, start + 1, end - 1), end - 1
    elif style == "'":
        emitted, last = _folded(text, start + 1, end - 1, "'"), end - 1
    else:
        emitted, last = _folded(text, start, end), end
    if len(emitted) != len(value):
        # A form that the walks do not know: the place is the scalar, not the character.
        return (start,) * (len(value) + 1)
    return (*(offset for _, offset in emitted), last)


def _folded(text: str, start: int, end: int, doubled: str = "") -> _Emitted:
    """A scalar whose lines are folded; `doubled`: a character that stands for itself in twos."""
    emitted: _Emitted = []
    offset = start
    while offset < end:
        char = text[offset]
        if char in _BLANKS or char in _BREAKS:
            offset = _fold(text, offset, end, emitted)
        else:
            emitted.append((char, offset))
            offset += 2 if char == doubled else 1
    return emitted


def _double_quoted(text: str, start: int, end: int) -> _Emitted:
    emitted: _Emitted = []
    offset = start
    while offset < end:
        char = text[offset]
        if char in _BLANKS or char in _BREAKS:
            offset = _fold(text, offset, end, emitted)
        elif char != "\\":
            emitted.append((char, offset))
            offset += 1
        elif text[offset + 1] in _BREAKS:
            breaks, offset = _breaks(text, offset + 1, end)
            emitted.extend(breaks[1:])
        elif text[offset + 1] in _HEX_LENGTHS:
            length = _HEX_LENGTHS[text[offset + 1]]
            code = int(text[offset + 2 : offset + 2 + length], 16)
            emitted.append((chr(code), offset))
            offset += 2 + length
        else:
            emitted.append((_ESCAPES.get(text[offset + 1], text[offset + 1]), offset))
            offset += 2
    return emitted


def _fold(text: str, offset: int, end: int, emitted: _Emitted) -> int:
    """Blanks stay as they are within a line; around line ends they vanish and one end folds."""
    stop = offset
    while stop < end and text[stop] in _BLANKS:
        stop += 1
    if stop == end or text[stop] not in _BREAKS:
        emitted.extend((text[place], place) for place in range(offset, stop))
        return stop
    breaks, stop = _breaks(text, stop, end)
    if breaks[0][0] != "\n":
        emitted.extend(breaks)
    elif len(breaks) == 1:
        emitted.append((" ", breaks[0][1]))
    else:
        emitted.extend(breaks[1:])
    return stop


def _breaks(text: str, offset: int, end: int) -> tuple[_Emitted, int]:
    """The line ends in a run of white space, and where the run stops."""
    breaks: _Emitted = []
    while offset < end and (text[offset] in _BLANKS or text[offset] in _BREAKS):
        if text[offset] in _BREAKS:
            char, length = _break_at(text, offset)
            breaks.append((char, offset))
            offset += length
        else:
            offset += 1
    return breaks, offset


def _break_at(text: str, offset: int) -> tuple[str, int]:
    """What a line end reads as, and its length: CRLF, CR and NEL are one newline."""
    if text.startswith("\r\n", offset):
        return "\n", 2
    char = text[offset]
    return ("\n" if char in "\r\n\x85" else char), 1


def _block(text: str, start: int, end: int, style: str, value: str) -> tuple[_Emitted, int]:
    header = start + 1
    chomping = ""
    explicit = 0
    while header < end and text[header] in "+-0123456789":
        if text[header] in "+-":
            chomping = text[header]
        else:
            explicit = int(text[header])
        header += 1
    while header < end and text[header] not in _BREAKS:
        header += 1
    if header < end:
        header += _break_at(text, header)[1]
    for indent in _indents(text, header, end, explicit):
        emitted, last = _block_content(text, header, end, indent, style, chomping)
        if "".join(char for char, _ in emitted) == value:
            return emitted, last
    return [], end


def _indents(text: str, start: int, end: int, explicit: int) -> Iterator[int]:
    """Indentations to try, the likeliest first: that of the first line with content."""
    first = deepest = 0
    for line in re.split(r"[\n\r]", text[start:end]):
        width = len(line) - len(line.lstrip(" "))
        deepest = max(deepest, width)
        if not first and line.strip(" "):
            first = width
    if not explicit:
        yield first
    # An indentation indicator counts from the parent's, which the scalar alone does not show.
    yield from range(max(1, explicit), max(deepest, explicit) + 2)


def _block_content(
    text: str, start: int, end: int, indent: int, style: str, chomping: str
) -> tuple[_Emitted, int]:
    emitted: _Emitted = []
    leading: _Emitted = []
    after_blank = False
    trailing, offset, column = _block_breaks(text, start, end, indent)
    last = offset
    while offset < end and column == indent:
        blank = text[offset] in _BLANKS
        if style == ">" and leading and leading[0][0] == "\n" and not after_blank and not blank:
            if not trailing:
                emitted.append((" ", leading[0][1]))
        else:
            emitted.extend(leading)
        emitted.extend(trailing)
        after_blank = blank
        while offset < end and text[offset] not in _BREAKS:
            emitted.append((text[offset], offset))
            offset += 1
        last = offset
        leading = []
        if offset < end:
            char, length = _break_at(text, offset)
            leading = [(char, offset)]
            offset += length
        trailing, offset, column = _block_breaks(text, offset, end, indent)
    if chomping != "-":
        emitted.extend(leading)
    if chomping == "+":
        emitted.extend(trailing)
    return emitted, max(last, emitted[-1][1] + 1 if emitted else last)


def _block_breaks(text: str, offset: int, end: int, indent: int) -> tuple[_Emitted, int, int]:
    """Skip indentation and empty lines: the line ends, where content begins, its column."""
    breaks: _Emitted = []
    while True:
        column = 0
        while offset < end and column < indent and text[offset] == " ":
            offset += 1
            column += 1
        if offset == end or text[offset] not in _BREAKS:
            return breaks, offset, column
        char, length = _break_at(text, offset)
        breaks.append((char, offset))
        offset += length
