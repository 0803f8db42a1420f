"""Hints for matchers in braces and for lists of labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rules.promql.functions import FUNCTIONS
from rules.promql.tokens import COMPARISONS, GROUP_WORDS, MATCH_OPERATORS, Kind, Token, shorten

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor


_UNQUOTED: Final = re.compile(r"[A-Za-z0-9_.:/-]+")
_UNQUOTED_VALUE: Final = re.compile(r"[^,}\"\n]+")


def after_matcher(cursor: Cursor) -> str:
    """A matcher is complete, and neither comma nor brace follows."""
    token = cursor.peek()
    if token.kind in {Kind.NAME, Kind.STRING}:
        if token.word in {"and", "or"}:
            if token.word == "and":
                return "separate matchers with a comma; all of them must match"
            return 'several values of a label are one regular expression: label=~"a|b"'
        return f"separate matchers with a comma: ..., {shorten(token.text)}"
    if token.is_symbol(")", "]", "[", "("):
        return 'close the braces with "}"'
    if token.is_symbol(*MATCH_OPERATORS):
        return "a matcher has one operator; separate matchers with a comma"
    if token.kind is Kind.END:
        return 'add the missing "}"'
    return ""


def for_label(cursor: Cursor) -> str:
    """A label's name was to come."""
    token, before = cursor.peek(), cursor.peek(-1)
    if token.is_symbol(","):
        return "remove one comma"
    if token.is_symbol("{"):
        return "templates are not expanded in expressions; write the braces once"
    if token.kind is Kind.DURATION:
        return "a range follows in brackets: x[5m]"
    if token.kind is Kind.NUMBER or ":" in token.text or token.kind is Kind.NAME:
        return f'put the label\'s name in quotes: "{token.text}"'
    if token.is_symbol("=", "!=", "=~", "!~"):
        return "name the label before it"
    if token.is_symbol(*COMPARISONS, ")", "]", "["):
        return 'close the braces with "}" before it'
    if token.is_symbol("(") and before.kind is Kind.NAME:
        return "only labels stand here"
    return ""


def for_match_operator(cursor: Cursor) -> str:
    """A label's name is read, and its operator was to come."""
    token, label = cursor.peek(), cursor.peek(-1)
    value = cursor.peek(1)
    shown = (
        value.text if value.kind is Kind.STRING else f'"{value.text}"' if value.text else '"..."'
    )
    if token.is_symbol("=="):
        return f"labels are matched with one =: {label.text}={shown}"
    if token.is_symbol("<", "<=", ">", ">="):
        return (
            "labels are strings: only =, !=, =~ and !~ apply; "
            "values are compared outside the braces"
        )
    if token.is_symbol(":"):
        return f"labels are matched with =: {label.text}={shown}"
    if token.word in {"in", "like"}:
        return f'use a regular expression: {label.text}=~"a|b"'
    if token.word == "not":
        return f'use {label.text}!="..." or {label.text}!~"a|b"'
    if token.is_symbol("-", "."):
        name = _UNQUOTED.match(cursor.source.text, label.span.start)
        return f'put the label\'s name in quotes: "{name[0] if name else label.text}"'
    if token.is_symbol("[") and cursor.peek(-3).text in FUNCTIONS:
        return f"arguments are put in parentheses: {cursor.peek(-3).text}(...)"
    if token.is_symbol("}", ","):
        return f'write {label.text}="...", or {label.text}!="" if it only has to be there'
    return f'write {label.text}="..."'


def for_match_value(cursor: Cursor) -> str:
    """A label's operator is read, and its value was to come."""
    token, operator, label = cursor.peek(), cursor.peek(-1), cursor.peek(-2)
    if token.kind not in {Kind.SYMBOL, Kind.END} or token.is_symbol("/", "-", "*"):
        value = _UNQUOTED_VALUE.match(cursor.source.text, token.span.start)
        written = shorten(value[0].strip() if value else token.text)
        return f'put the value in quotes: {label.text}{operator.text}"{written}"'
    if token.is_symbol("=", "~"):
        return "the operators are =, !=, =~ and !~"
    if token.is_symbol("(", "["):
        return f'several values are one regular expression: {label.text}=~"a|b"'
    if token.is_symbol("{"):
        return "templates are not expanded in expressions; write the value itself"
    return f'write {label.text}{operator.text}"..."'


def for_label_list(cursor: Cursor) -> str:
    """`by`, `on` or the like is read, and its parenthesis was to come."""
    token, keyword = cursor.peek(), cursor.peek(-1)
    if token.word in GROUP_WORDS:
        return f"list the labels first: {keyword.text} (label) {token.text} (...)"
    if token.kind is Kind.NAME or token.kind is Kind.STRING:
        labels = [token.text]
        place = 1
        while cursor.peek(place).is_symbol(",") and cursor.peek(place + 1).kind is Kind.NAME:
            labels.append(cursor.peek(place + 1).text)
            place += 2
        return f"put the labels in parentheses: {keyword.text} ({', '.join(labels)})"
    if token.is_symbol("{", "["):
        return f"labels stand in parentheses: {keyword.text} (...)"
    return f"list the labels: {keyword.text} (label)"


def after_label(cursor: Cursor, keyword: Token) -> str:
    """A label of a list is complete, and neither comma nor parenthesis follows."""
    token = cursor.peek()
    if token.kind in {Kind.NAME, Kind.STRING}:
        return f"separate labels with a comma: ..., {shorten(token.text)}"
    if token.is_symbol("=", "==", "!=", "=~", "!~"):
        return 'only names stand here; labels are matched in the selector: x{label="value"}'
    if keyword.word in GROUP_WORDS and token.kind is Kind.SYMBOL and token.text != ")":
        return f"with no labels to copy write {keyword.text} () before the parenthesis"
    if token.is_symbol("("):
        return f"close the labels before the expression: {keyword.text} (...) (...)"
    if token.kind is Kind.END:
        return 'add the missing ")"'
    return ""
