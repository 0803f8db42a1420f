"""Text that is not PromQL but that people type: what it is and what to write instead.

Each function gives the BAD token for a place in the text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from rules.durations import suggest_duration
from rules.promql.tokens import Kind, Token, shorten
from rules.source import Span

OPERATORS: Final = {
    "===": "use == to compare",
    "!==": "use != to compare",
    "=>": 'for "greater or equal" write >=',
    "=<": 'for "less or equal" write <=',
    "=!": 'for "not equal" write !=',
    "==~": "use =~ to match a label against a regular expression",
    "!=~": "use !~ to refuse what matches a regular expression",
    "<>": 'for "not equal" write !=',
    "&&": "use and",
    "||": "use or",
    "&": "use and",
    "|": "use or; inside a label's regular expression, put the | in the quotes",
    "**": "use ^ for powers",
    "//": "comments start with #",
    ":=": "use == to compare",
    "!": 'for "not equal" write !=; for "not" write x == 0, a unless b, or absent(x)',
    "~": "use =~ to match a label against a regular expression",
    ";": "separate with a comma; an expression needs no semicolon at its end",
    "?": "PromQL has no conditional: write (a and on () cond) or b",
    "\\": "outside a string there are no escapes; a line needs no continuation mark",
    ".": 'a name with dots is quoted inside braces: {"my.metric"}',
}
_OPERATOR = re.compile("|".join(re.escape(o) for o in sorted(OPERATORS, key=len, reverse=True)))
_VARIABLE = re.compile(r"\$\{?[A-Za-z0-9_]*(?::[a-z]+)?\}?")
_NUMERIC = re.compile(r"[A-Za-z0-9_.]+")
_UNFINISHED = re.compile(r"(?:[0-9]+[smhdwy])+[0-9]+")
_UNIT = re.compile(r"([0-9.]+)(k|m|g|t|p)?(ib?|b)?", re.IGNORECASE)
_QUOTES: Final = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2032\u2033\u00b4"
_CHARACTERS: Final = {
    **dict.fromkeys(_QUOTES, 'type straight quotes: "'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "type a plain minus sign: -"),
    **dict.fromkeys("\u00a0\u2007\u202f\u3000", "replace it with a plain space"),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "delete this invisible character"),
    "\u2265": "write >=",
    "\u2264": "write <=",
    "\u2260": "write !=",
    "\u00d7": "write *",
    "\u00f7": "write /",
    "\u2026": "complete the expression",
}


def match(text: str, start: int) -> Token | None:
    """The BAD token for an operator of another language, or None."""
    # `!=`, `!~`, `==` and `=~` are PromQL; the longer and the other ones are not.
    found = _OPERATOR.match(text, start)
    if found is not None and (found[0] != "!" or text[start : start + 2] not in {"!=", "!~"}):
        hint = OPERATORS[found[0]]
        if found[0] == "." and (name := _dotted(text, start)):
            hint = f'a name with dots is quoted inside braces: {{"{name}"}}'
        return _bad(text, start, found.end(), f'unexpected "{found[0]}"', hint)
    return None


def _dotted(text: str, dot: int) -> str | None:
    """The name around a dot, None if it is none."""
    start = dot
    while start > 0 and _NUMERIC.match(text, start - 1):
        start -= 1
    name = _NUMERIC.match(text, start)
    return None if name is None or name[0].strip(".") != name[0] else shorten(name[0])


def character(text: str, start: int) -> Token:
    """The BAD token for a character that begins nothing."""
    char = text[start]
    if char == "$":
        variable = _VARIABLE.match(text, start)
        end = variable.end() if variable else start + 1
        hint = "variables of dashboards are not expanded here: write the value itself, as in [5m]"
        return _bad(text, start, end, f'unexpected "{text[start:end]}"', hint)
    named = f'"{char}"' if char.isprintable() else f"U+{ord(char):04X}"
    message = f"unexpected character {named}"
    if not char.isascii():
        message += f" (U+{ord(char):04X})" if char.isprintable() else ""
    hint = _CHARACTERS.get(char, "")
    plain = unicodedata.normalize("NFKC", char)
    if not hint and plain.isascii() and plain != char:
        hint = f"type a plain {plain}"
    if not hint and char.isalpha():
        hint = 'a name with other letters is quoted inside braces: {"name", "label"="value"}'
    return _bad(text, start, start + 1, message, hint)


def unterminated(text: str, start: int) -> Token:
    """The BAD token for a string without its closing quote."""
    quote = text[start]
    end = len(text) if quote == "`" else text.find("\n", start)
    end = len(text) if end < 0 else end
    hint = f"close the string with {quote}"
    if quote != "`" and quote in text[end:]:
        hint += ", on the same line; only a string in back-quotes (`...`) spans lines"
    message = f"the string is not closed: expected {quote}"
    return _bad(text, start, end, message, hint)


def numeric(text: str, start: int) -> Token:
    """The BAD token for what starts with a digit but is neither number nor duration."""
    found = _NUMERIC.match(text, start)
    end = found.end() if found else start + 1
    chunk = text[start:end]
    message = f'"{shorten(chunk)}" is neither a number nor a duration'
    meant = suggest_duration(chunk)
    number = scaled_number(chunk)
    if meant is not None:
        hint = f"write {meant}"
    elif number is not None:
        hint = f"numbers take no such unit: write {number}"
    elif chunk.count(".") > 1:
        hint = "an address or a version is a label's value: put it in quotes"
    elif _UNFINISHED.fullmatch(chunk):
        hint = "the last number needs a unit, as in 1h30m"
    elif re.search("[A-Za-z_]{2}", chunk):
        message = f'"{shorten(chunk)}" starts with a digit: expected a number, a duration or a name'
        hint = (
            f'a name cannot start with a digit unless quoted inside braces: {{"{shorten(chunk)}"}}'
        )
    else:
        hint = "durations are whole numbers with a unit: ms, s, m, h, d, w, y"
    return _bad(text, start, end, message, hint)


def scaled_number(text: str) -> str | None:
    """A number with a unit of size (`10k`, `10MiB`) as PromQL writes it, or None."""
    unit = _UNIT.fullmatch(text)
    if unit is None or not (unit[2] or unit[3]):
        return None
    power = " kmgtp".index((unit[2] or " ").lower())
    if not power:
        return unit[1]
    if unit[3] and unit[3].lower() in {"i", "ib"}:
        return f"{unit[1]} * 1024^{power}" if power > 1 else f"{unit[1]} * 1024"
    return f"{unit[1]}e{3 * power}"


def _bad(text: str, start: int, end: int, message: str, hint: str) -> Token:
    return Token(Kind.BAD, text[start:end], Span(start, end), message=message, hint=hint)
