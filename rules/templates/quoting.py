"""Strings and characters as Go's strconv quotes them."""

from __future__ import annotations

_NAMED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\",
}  # fmt: skip


def quoted(text: str, mark: str = '"', *, ascii_only: bool = False) -> str:
    """strconv.Quote, QuoteRune (with `'`) and their ASCII kin."""
    return mark + "".join(_escaped(char, mark, ascii_only) for char in text) + mark


def is_printable(char: str) -> bool:
    """strconv.IsPrint: what is seen, and the space."""
    return char.isprintable()


def can_back_quote(text: str) -> bool:
    """Whether a string stands between back-quotes as it is, on one line."""
    return not any(char in "`\x7f\ufeff" or (char < " " and char != "\t") for char in text)


def _escaped(char: str, mark: str, ascii_only: bool) -> str:
    if char == mark:
        return f"\\{char}"
    if char in _NAMED:
        return _NAMED[char]
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{point - 0xDC00:02x}"
    if is_printable(char) and (point < 0x80 or not ascii_only):
        return char
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
