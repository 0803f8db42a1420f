"""Reads `name{matchers}` and lists of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql import hints
from rules.promql.ast import Matcher, MatchOp, VectorSelector
from rules.promql.regex import PatternError, compile_matcher
from rules.promql.tokens import MATCH_OPERATORS, NOT_LABELS, Kind, shorten

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor
    from rules.promql.tokens import Token

METRIC_NAME = "__name__"


def read_selector(cursor: Cursor, name: Token | None) -> VectorSelector:
    """A selector whose name, if it has one outside braces, is just read."""
    named = () if name is None else (Matcher(name.span, METRIC_NAME, "=", name.text),)
    if not cursor.at("{"):
        if name is None:  # pragma: no cover
            raise AssertionError("a selector starts with a name or a brace")
        return VectorSelector(name.span, name.text, named)
    opening = cursor.enter()
    matchers: list[Matcher] = []
    while not cursor.at("}"):
        matchers.append(_matcher(cursor))
        if not cursor.accept(","):
            break
    expected = '"," or "}"' if matchers else 'a label name or "}"'
    closing = cursor.leave(
        "}", "label matching", expected, lambda: hints.labels.after_matcher(cursor)
    )
    start = opening.span if name is None else name.span
    text = None if name is None else name.text
    return VectorSelector(start.to(closing.span), text, named + tuple(matchers))


def _matcher(cursor: Cursor) -> Matcher:
    token = cursor.peek()
    if token.kind not in {Kind.NAME, Kind.STRING}:
        expected = 'a label name or "}"'
        cursor.fail("label matching", expected, lambda: hints.labels.for_label(cursor))
    label = cursor.next()
    operator = cursor.accept(*MATCH_OPERATORS)
    if operator is None:
        if label.kind is Kind.STRING and (cursor.at(",", "}") or cursor.peek().kind is Kind.END):
            return Matcher(label.span, METRIC_NAME, "=", str(label.value))
        expected = 'a label matching operator ("=", "!=", "=~" or "!~")'
        cursor.fail("label matching", expected, lambda: hints.labels.for_match_operator(cursor))
    if cursor.peek().text[:1].isdigit():
        found = cursor.peek()
        message = f"unexpected {found.described} in label matching, expected a string"
        cursor.refuse(found.span, message, hints.labels.for_match_value(cursor))
    if cursor.peek().kind is not Kind.STRING:
        cursor.fail("label matching", "a string", lambda: hints.labels.for_match_value(cursor))
    value = cursor.next()
    name = str(label.value) if label.kind is Kind.STRING else label.text
    span = label.span.to(value.span)
    matcher = Matcher(span, name, _match_op(operator.text), str(value.value))
    if matcher.op in {"=~", "!~"}:
        _check_pattern(cursor, matcher, value)
    return matcher


def _match_op(text: str) -> MatchOp:
    for op in MATCH_OPERATORS:
        if op == text:
            return op
    raise AssertionError(text)  # pragma: no cover


def _check_pattern(cursor: Cursor, matcher: Matcher, written: Token) -> None:
    if "\ufffd" in matcher.value and "\ufffd" not in written.text:
        hint = "the escape is no UTF-8; write the character itself"
        cursor.report(written.span, "invalid regular expression, not valid UTF-8", hint)
        return
    try:
        compile_matcher(matcher.value)
    except PatternError as error:
        at = f': "{shorten(error.fragment)}"' if error.fragment else ""
        cursor.report(matcher.span, f"invalid regular expression, {error}{at}", error.hint)


def read_labels(cursor: Cursor, keyword: Token) -> tuple[str, ...]:
    """`(a, b)` after `keyword`: by, without, on, ignoring, group_left or group_right."""
    if not cursor.at("("):
        cursor.fail("", f'"(" after "{keyword.text}"', lambda: hints.labels.for_label_list(cursor))
    context = f"the labels of {keyword.word}"
    cursor.enter()
    labels: list[str] = []
    while not cursor.at(")"):
        labels.append(_label(cursor, context))
        if not cursor.accept(","):
            break
    expected = '"," or ")"' if labels else 'a label name or ")"'
    cursor.leave(")", context, expected, lambda: hints.labels.after_label(cursor, keyword))
    return tuple(labels)


def _label(cursor: Cursor, context: str) -> str:
    token = cursor.peek()
    if token.kind is Kind.STRING and token.value:
        name = str(token.value)
        if "\ufffd" in name and "\ufffd" not in token.text:
            hint = "the escape is no UTF-8; write the character itself"
            cursor.report(token.span, f"invalid label name {shorten(token.text)}", hint)
        cursor.next()
        return name
    if token.kind is not Kind.NAME or ":" in token.text or token.word in NOT_LABELS:
        cursor.fail(context, 'a label name or ")"', lambda: hints.labels.for_label(cursor))
    return cursor.next().text
