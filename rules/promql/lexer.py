"""Text into tokens, each with its span; comments and white space fall away.

One pass, one token per match, so the cost is linear in the text. Text that is no token becomes a
BAD token, which ends the list: the parser reports it only if nothing before it is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from rules.durations import DurationError, parse_duration, suggest_duration
from rules.promql import hints
from rules.promql.strings import EscapeError, unquote
from rules.promql.tokens import NUMBER_WORDS, Kind, Token, shorten
from rules.source import Span

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
_OCTAL = re.compile(r"0_?[0-7]+(?:_[0-7]+)*")
_GLUED = re.compile(r"[A-Za-z0-9_.]")
_MAX_INT64: Final = 2**63 - 1
# No symbol where it would be part of an operator of another language, which hints/foreign.py names.
_SYMBOLS = (
    r"</|>/|==(?![=~])|!=(?![=~])|=~|!~|<=|>=|::|<(?!>)|=(?![=!<>~])|:(?!=)|/(?!/)|\*(?!\*)"
    r"|[-+%^()\[\]{},@>]"
)


def _scanner(name: str) -> re.Pattern[str]:
    """White space and comments, then what the next token looks like."""
    return re.compile(
        r"(?:[ \t\r\n]+|#[^\r\n]*)*"
        rf"(?:(?P<name>{name})|(?P<symbol>{_SYMBOLS})"
        r"|(?P<string>[\"'`])|(?P<number>\.?[0-9])|(?P<other>[^ \t\r\n#])|)"
    )


# A colon belongs to a metric's name, but in [range:step] and in {label} it stands alone.
_OPEN: Final = _scanner("[A-Za-z_:][A-Za-z0-9_:]*").match
_ENCLOSED: Final = _scanner("[A-Za-z_][A-Za-z0-9_]*").match
_ENCLOSING: Final = frozenset("[]{}")


def tokenize(text: str) -> list[Token]:
    """Every token of the text, ended by one END token."""
    tokens: list[Token] = []
    position = 0
    bracket = brace = False
    scan = _OPEN
    while (found := scan(text, position)) and (group := found.lastgroup):
        start, position = found.span(group)
        if group == "name":
            name = text[start:position]
            word = name.lower()
            span = Span(start, position)
            if word in NUMBER_WORDS and scan is not _ENCLOSED:
                token = Token(Kind.NUMBER, name, span, value=float(name))
            else:
                token = Token(Kind.NAME, name, span, word)
        elif group == "symbol":
            symbol = text[start:position]
            token = Token(Kind.SYMBOL, symbol, Span(start, position), "", symbol)
            if symbol in _ENCLOSING:
                if symbol in "[]":
                    bracket = symbol == "["
                else:
                    brace = symbol == "{"
                scan = _ENCLOSED if bracket or brace else _OPEN
        elif group == "string":
            token = _string(text, start)
        elif group == "number":
            token = _number(text, start)
        else:
            token = hints.foreign.match(text, start) or hints.foreign.character(text, start)
        tokens.append(token)
        if token.kind is Kind.BAD:
            break
        position = token.span.end
    last = tokens[-1].span.end if tokens else 0
    tokens.append(Token(Kind.END, "", Span(last, last)))
    return tokens


def _string(text: str, start: int) -> Token:
    quote = text[start]
    literal = _STRING[quote].match(text, start)
    if literal is None:
        return hints.foreign.unterminated(text, start)
    span = Span(start, literal.end())
    try:
        return Token(Kind.STRING, literal[0], span, value=unquote(literal[0]))
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
            return Token(Kind.DURATION, duration[0], span, value=parse_duration(duration[0]))
        except DurationError as error:
            message, hint = str(error), "the longest is about 292y"
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
            return Token(Kind.NUMBER, number[0], span, value=value)
        return Token(
            Kind.BAD,
            number[0],
            span,
            message=f"number {shorten(number[0])} is out of range",
            hint="for infinity write +Inf",
        )
    return hints.foreign.numeric(text, start)


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
