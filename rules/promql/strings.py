"""String literals: Go's escapes in both directions.

`"..."` and `'...'` take the escapes of a Go string; a string in back-quotes takes none.
"""

from __future__ import annotations

import re
from typing import Final

_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
}
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{3})|x(?P<byte>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})"
    r"|U(?P<u8>[0-9a-fA-F]{8})|(?P<other>.?))",
    re.DOTALL,
)
_QUOTED: Final = {ord(char): f"\\{name}" for name, char in _SIMPLE.items()} | {ord('"'): '\\"'}


class EscapeError(ValueError):
    """A wrong escape. `start` and `end` bound it in the literal's text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


def unquote(literal: str) -> str:
    r"""The characters that a whole literal, quotes included, stands for.

    `\xff` and octal escapes are bytes of UTF-8; bytes that do not decode become U+FFFD.
    Raises EscapeError.
    """
    quote, body = literal[0], literal[1:-1]
    if quote == "`" or "\\" not in body:
        return body
    out = bytearray()
    end = 0
    for match in _ESCAPE.finditer(body):
        out += body[end : match.start()].encode("utf-8", "surrogatepass")
        out += _resolve(match, quote)
        end = match.end()
    out += body[end:].encode("utf-8", "surrogatepass")
    return out.decode("utf-8", "replace")


def _resolve(match: re.Match[str], quote: str) -> bytes:
    place = match.start() + 1, match.end() + 1
    byte = match["octal"] or match["byte"]
    if byte:
        value = int(byte, 8 if match["octal"] else 16)
        if value > 0xFF:
            raise EscapeError(f"{match[0]} is more than a byte (\\377)", *place)
        return bytes([value])
    code = match["u4"] or match["u8"]
    if code:
        point = int(code, 16)
        if point > 0x10FFFF or 0xD800 <= point < 0xE000:
            raise EscapeError(f"{match[0]} is not a Unicode character", *place)
        return chr(point).encode()
    other = match["other"]
    if other == quote:
        return other.encode()
    if other in _SIMPLE:
        return _SIMPLE[other].encode()
    raise EscapeError(f"unknown escape {match[0]}", *place)


def quote(text: str) -> str:
    """The text as a double-quoted literal."""
    return f'"{"".join(_shown(char) for char in text)}"'


def _shown(char: str) -> str:
    known = _QUOTED.get(ord(char))
    if known is not None:
        return known
    if char.isprintable() or char == " ":
        return char
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
