"""Text into tokens, each with its span; comments and white space fall away.

One pass, one token per match, so the cost is linear in the text. Text that is no token becomes a
BAD token, which ends the list: the parser reports it only if nothing before it is wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rules.durations import DurationError, parse_duration, suggest_duration
from rules.promql import foreign
from rules.promql.strings import EscapeError, unquote
from rules.promql.tokens import NUMBER_WORDS, Kind, Token, shorten
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)+")
_SYMBOL = re.compile(r"</|>/|==|!=|=~|!~|<=|>=|::|[-+*/%^()\[\]{},=<>@:]")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_STRING: Final = {
    '"': re.compile(r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"'),
    "'": re.compile(r"'[^'\\\n]*(?:\\[^\n][^'\\\n]*)*'"),
    "`": re.compile(r"`[^`]*`"),
}
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_EXPONENT = rf"(?:[eE][+-]?{_DIGITS})?"
_NUMBER = re.compile(
    r"0[xX]_?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
    rf"|{_DIGITS}(?:\.(?:{_DIGITS})?)?{_EXPONENT}"
    rf"|\.{_DIGITS}{_EXPONENT}"
)
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+")
_NUMERIC = re.compile(r"\.?[0-9][A-Za-z0-9_.]*")
_OCTAL = re.compile(r"0_?[0-7]+(?:_[0-7]+)*")
_GLUED = re.compile(r"[A-Za-z0-9_.]")
_MAX_INT64: Final = 2**63 - 1


def tokenize(text: str) -> list[Token]:
    """Every token of the text, ended by one END token."""
    tokens = list(_scan(text))
    last = tokens[-1].span.end if tokens else 0
    tokens.append(Token(Kind.END, "", Span(last, last)))
    return tokens


def _scan(text: str) -> Iterator[Token]:
    position = 0
    bracket = brace = False
    while True:
        if blank := _BLANK.match(text, position):
            position = blank.end()
        if position == len(text):
            return
        token = _token(text, position, bracket or brace)
        yield token
        if token.kind is Kind.BAD:
            return
        # A colon belongs to a metric's name, but in [range:step] and in {label} it stands alone.
        if token.is_symbol("[", "]"):
            bracket = token.text == "["
        elif token.is_symbol("{", "}"):
            brace = token.text == "{"
        position = token.span.end


def _token(text: str, start: int, enclosed: bool) -> Token:
    char = text[start]
    if char in _STRING:
        return _string(text, start)
    if char.isascii() and (char.isdigit() or (char == "." and _NUMERIC.match(text, start))):
        return _number(text, start)
    if word := (_WORD if enclosed else _METRIC).match(text, start):
        span = Span(start, word.end())
        if word[0].lower() in NUMBER_WORDS and not enclosed:
            return Token(Kind.NUMBER, word[0], span, float(word[0]))
        return Token(Kind.NAME, word[0], span)
    if stranger := foreign.match(text, start):
        return stranger
    if symbol := _SYMBOL.match(text, start):
        return Token(Kind.SYMBOL, symbol[0], Span(start, symbol.end()))
    return foreign.character(text, start)


def _string(text: str, start: int) -> Token:
    quote = text[start]
    literal = _STRING[quote].match(text, start)
    if literal is None:
        return foreign.unterminated(text, start)
    span = Span(start, literal.end())
    try:
        return Token(Kind.STRING, literal[0], span, unquote(literal[0]))
    except EscapeError as error:
        hint = "double the backslash (\\\\), or put the string in back-quotes (`...`)"
        place = Span(start, span.end)
        message = f"{error} in string"
        return Token(Kind.BAD, literal[0], place, message=message, hint=hint)


def _number(text: str, start: int) -> Token:
    duration = _DURATION.match(text, start)
    if duration and not _GLUED.match(text, duration.end()):
        span = Span(start, duration.end())
        try:
            return Token(Kind.DURATION, duration[0], span, parse_duration(duration[0]))
        except DurationError as error:
            message, hint = str(error), ""
            if meant := suggest_duration(duration[0]):
                shown = shorten(duration[0])
                message = f'"{shown}" is not a duration: each unit comes once, from large to small'
                hint = f"write {meant}"
            return Token(Kind.BAD, duration[0], span, message=message, hint=hint)
    number = _NUMBER.match(text, start)
    if number and not _GLUED.match(text, number.end()):
        span = Span(start, number.end())
        value = number_value(number[0])
        if value is not None:
            return Token(Kind.NUMBER, number[0], span, value)
        return Token(
            Kind.BAD,
            number[0],
            span,
            message=f"number {shorten(number[0])} is out of range",
            hint="for infinity write +Inf",
        )
    return foreign.numeric(text, start)


def number_value(text: str) -> float | None:
    """The value of a number as Go reads it (a leading 0 is octal), None if out of range."""
    plain = text.replace("_", "")
    if plain[:2] in {"0x", "0X"}:
        value = int(plain, 16)
        return float(value) if value <= _MAX_INT64 else None
    if _OCTAL.fullmatch(text):
        value = int(plain, 8)
        return float(value) if value <= _MAX_INT64 else float(plain)
    number = float(plain)
    return number if number != float("inf") else None
