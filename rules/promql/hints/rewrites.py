"""Pieces of the source around the cursor, to build a corrected expression from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.promql.tokens import PRECEDENCE, Kind, Token, shorten

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor

_OPENING: Final = ("(", "[", "{")
_CLOSING: Final = (")", "]", "}")


def following(cursor: Cursor) -> str:
    """The operand that starts at the cursor, `...` if there is none."""
    first = end = cursor.index
    depth = 0
    while not _ends(cursor.tokens[end], depth, _CLOSING):
        token = cursor.tokens[end]
        depth += token.is_symbol(*_OPENING) - token.is_symbol(*_CLOSING)
        end += 1
    return _slice(cursor, first, end)


def preceding(cursor: Cursor) -> str:
    """The operand that ends before the cursor, `...` if there is none."""
    start = cursor.index
    depth = 0
    while start > 0 and not _ends(cursor.tokens[start - 1], depth, _OPENING):
        token = cursor.tokens[start - 1]
        depth += token.is_symbol(*_CLOSING) - token.is_symbol(*_OPENING)
        start -= 1
    return _slice(cursor, start, cursor.index)


def opener(cursor: Cursor) -> int:
    """The index of the bracket that the token before the cursor closes."""
    place = cursor.index - 1
    depth = 0
    while place > 0:
        token = cursor.tokens[place]
        depth += token.is_symbol(*_CLOSING) - token.is_symbol(*_OPENING)
        if not depth:
            break
        place -= 1
    return place


def parenthesised(cursor: Cursor, ahead: int) -> str:
    """The `(...)` that starts `ahead` tokens on, `(...)` itself if none does."""
    start = cursor.index + ahead
    if not cursor.peek(ahead).is_symbol("("):
        return "(...)"
    for end in range(start, len(cursor.tokens)):
        if cursor.tokens[end].is_symbol(")"):
            return _slice(cursor, start, end + 1)
    return "(...)"


def _ends(token: Token, depth: int, brackets: tuple[str, ...]) -> bool:
    if token.kind in {Kind.END, Kind.BAD}:
        return True
    if depth:
        return False
    return token.is_symbol(*brackets, ",", *PRECEDENCE) or token.word in PRECEDENCE


def _slice(cursor: Cursor, start: int, end: int) -> str:
    if start >= end:
        return "..."
    return shorten(cursor.text(cursor.tokens[start].span.to(cursor.tokens[end - 1].span)))
