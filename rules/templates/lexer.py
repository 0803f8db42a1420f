"""Cuts a template into text and the tokens of its actions."""

from __future__ import annotations

import re

from rules.slotted import dataclass
from rules.source import Span
from rules.templates.errors import TemplateError

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<raw>`[^`]*`)
    |(?P<char>'(?:[^'\\\n]|\\.)+')
    |(?P<number>[-+]?(?:0[xX](?:[0-9a-fA-F_]+\.?[0-9a-fA-F_]*|\.[0-9a-fA-F_]+)[pP][-+]?[0-9]+
        |0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+
        |(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?![\w.]))
    |(?P<field>\.[^\W\d]\w*)
    |(?P<variable>\$\w*)
    |(?P<word>[^\W\d]\w*)
    |(?P<define>:=)
    |(?P<symbol>=(?!=)|[|().,])""",
    re.VERBOSE,
)
_CLOSING = re.compile(r"[ \t\r\n]-}}|}}")
_COMMENT = re.compile(r"\s*/\*")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_SPACES = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Token:
    """`kind`: text, open, close, or a group of _TOKEN. `spaced`: white space stands before."""

    kind: str
    text: str
    span: Span
    spaced: bool = False


def tokens(text: str) -> list[Token]:
    """All tokens of a template, trim markers applied to the text around them."""
    found: list[Token] = []
    offset = 0
    trim_next = False
    while True:
        start = text.find("{{", offset)
        piece = text[offset : start if start >= 0 else len(text)]
        if trim_next:
            stripped = piece.lstrip(_SPACES)
            offset += len(piece) - len(stripped)
            piece = stripped
        trim = start >= 0 and text[start + 2 : start + 3] == "-" and _spaced(text, start + 3)
        if trim:
            piece = piece.rstrip(_SPACES)
        if piece:
            found.append(Token("text", piece, Span(offset, offset + len(piece))))
        if start < 0:
            return found
        inside = start + (3 if trim else 2)
        offset, trim_next = _action(text, start, inside, found)


def _spaced(text: str, offset: int) -> bool:
    return text[offset : offset + 1] in tuple(_SPACES)


def _action(text: str, start: int, inside: int, found: list[Token]) -> tuple[int, bool]:
    """The tokens of one action; where it ends, and whether it trims what follows."""
    comment = _COMMENT.match(text, inside)
    if comment:
        return _comment(text, start, comment.end())
    found.append(Token("open", "{{", Span(start, start + 2)))
    offset = inside
    spaced = False
    while True:
        closing = _CLOSING.match(text, offset)
        if closing:
            found.append(Token("close", "}}", Span(closing.end() - 2, closing.end()), spaced))
            return closing.end(), "-" in closing.group()
        match = _TOKEN.match(text, offset)
        if match is None:
            raise _bad_character(text, start, offset)
        kind = match.lastgroup or ""
        if kind == "space":
            spaced = True
            # `-}}` needs the one space before it.
            offset = match.end() - (1 if text.startswith("-}}", match.end()) else 0)
            continue
        found.append(Token(kind, match.group(), Span(offset, match.end()), spaced))
        offset = match.end()
        spaced = False


def _comment(text: str, start: int, inside: int) -> tuple[int, bool]:
    end = text.find("*/", inside)
    if end < 0:
        raise TemplateError("unclosed comment", Span(start, start + 4), "close it with '*/}}'")
    closing = _CLOSING.match(text, end + 2)
    if closing is None:
        hint = "a comment is an action of its own: '{{/* ... */}}'"
        raise TemplateError("comment ends before '}}'", Span(start, end + 2), hint)
    return closing.end(), "-" in closing.group()


def _bad_character(text: str, start: int, offset: int) -> TemplateError:
    if offset >= len(text) or text.startswith("{{", offset):
        return TemplateError("unclosed action", Span(start, start + 2), "close it with '}}'")
    char = text[offset]
    span = Span(offset, offset + 1)
    if char in "\"'`":
        return TemplateError("unterminated quoted string", span, f"close it with {char}")
    if char in "<>!=":
        hint = "templates compare with functions: eq, ne, lt, le, gt, ge ('if gt $value 0.5')"
        return TemplateError(f"unexpected '{char}' in action", span, hint)
    if char == "[":
        hint = "a label is read with a dot, '$labels.job', or with 'index $labels \"job\"'"
        return TemplateError("unexpected '[' in action", span, hint)
    if char in "+-*/%":
        hint = "templates do no arithmetic; do it in the expression"
        return TemplateError(f"unexpected '{char}' in action", span, hint)
    return TemplateError(f"unexpected '{char}' in action", span)


def unquote(token: Token) -> str:
    """The text of a string or raw string token."""
    if token.kind == "raw":
        return token.text[1:-1]
    return _ESCAPE.sub(lambda match: _unescape(match, token), token.text[1:-1])


def _unescape(match: re.Match[str], token: Token) -> str:
    code = match.group(1)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if len(code) > 1:
        value = int(code, 8) if code[0].isdigit() else int(code[1:], 16)
        if value <= 0x10FFFF:
            return chr(value)
    place = token.span.start + 1 + match.start()
    raise TemplateError("unknown escape in a quoted string", Span(place, place + 2))
