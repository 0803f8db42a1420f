"""Reads what follows a selector or sub-expression: `[5m]`, `[1h:5m]`, `offset 5m`, `@ 1700000000`.

They bind closer than any operator and may come in any order, save that a range comes before the
offset and `@` of its own selector.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rules.durations import LONGEST_MS
from rules.promql.ast import At, Duration, Expr, MatrixSelector, Subquery, VectorSelector
from rules.promql.hints import ranges as hints
from rules.promql.tokens import RANGE_MODIFIERS, Kind
from rules.source import Span

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor

_NOT_YET = "is not supported yet"
_DURATION_FUNCTIONS = frozenset({"step", "range", "min_of", "max_of"})
_ARITHMETIC = ("+", "-", "*", "/", "%", "^")


def read_modifiers(cursor: Cursor, expr: Expr) -> Expr:
    """The expression with every modifier that follows it."""
    while True:
        if cursor.at("["):
            expr = _range(cursor, expr)
        elif cursor.at_word("offset"):
            expr = _offset(cursor, expr)
        elif cursor.at("@"):
            expr = _at(cursor, expr)
        elif cursor.at_word(*RANGE_MODIFIERS):
            token = cursor.peek()
            cursor.refuse(token.span, f'the modifier "{token.word}" {_NOT_YET}')
        else:
            return expr


def _range(cursor: Cursor, expr: Expr) -> Expr:
    opening = cursor.enter()
    length = _positive(cursor, "range")
    step: Duration | None = None
    if cursor.at("::"):
        hint = "with one colon the steps are multiples of the step already: [1h:1m]"
        cursor.refuse(cursor.peek().span, f'an aligned subquery ("::") {_NOT_YET}', hint)
    colon = cursor.accept(":")
    if colon and not cursor.at("]"):
        step = _positive(cursor, "step")
    expected = '"]"' if colon else '":" or "]"'
    context = "subquery" if colon else "range"
    if not cursor.at("]"):
        _refuse_unitless(cursor, context, expected)
    closing = cursor.leave("]", context, expected, lambda: hints.after_range(cursor))
    span = Span(expr.span.start, closing.span.end)
    if colon:
        return Subquery(span, expr, length, step)
    return _matrix(cursor, expr, length, span, opening.span.to(closing.span))


def _refuse_unitless(cursor: Cursor, context: str, expected: str) -> None:
    """Fail at a number without a unit rather than at what follows it: `[5 m]`, `[5, 1m]`."""
    number, token = cursor.peek(-1), cursor.peek()
    if number.kind is Kind.NUMBER and token.kind not in {Kind.END, Kind.BAD}:
        message = f"unexpected {token.described} after {number.text} in {context}"
        hint = hints.after_range(cursor)
        cursor.refuse(
            number.span.to(token.span), f"{message}, expected a duration, {expected}", hint
        )


def _matrix(cursor: Cursor, expr: Expr, length: Duration, span: Span, brackets: Span) -> Expr:
    if isinstance(expr, VectorSelector):
        if expr.offset or expr.at:
            what = "offset" if expr.offset else "@"
            selector = cursor.text(expr.span).partition("offset" if expr.offset else "@")[0]
            written = f"{selector.strip()}{cursor.text(brackets)}"
            hint = f"put the range first: {written} {what} ..."
            cursor.report(brackets, f"the range must come before {what}", hint)
        return MatrixSelector(span, expr, length)
    message = "a range is only allowed right after a selector"
    cursor.report(brackets, message, hints.for_range_elsewhere(cursor, expr, brackets))
    # The subquery it should have been, so that what follows is checked as usual.
    return Subquery(span, expr, length, None)


def _positive(cursor: Cursor, what: Literal["range", "step"]) -> Duration:
    _refuse_duration_expression(cursor, starts=True)
    token = cursor.peek()
    if token.kind not in {Kind.NUMBER, Kind.DURATION}:
        expected = "a duration"
        if what == "step":
            expected = 'a duration or "]"'
        cursor.fail(
            "range" if what == "range" else "subquery", expected, lambda: hints.for_duration(cursor)
        )
    duration = _duration(cursor)
    if duration.milliseconds <= 0:
        cursor.report(duration.span, f"the {what} must be longer than 0", "write it as in [5m]")
    _refuse_duration_expression(cursor, starts=False)
    return duration


def _refuse_duration_expression(cursor: Cursor, *, starts: bool) -> None:
    token = cursor.peek()
    if starts and token.text == "-" and cursor.peek(2).is_symbol("]", ":"):
        hint = "to look at another time use offset: x[5m] offset 1h"
        cursor.refuse(token.span.to(cursor.peek(1).span), "a duration must be longer than 0", hint)
    if starts:
        found = token.is_symbol("(", "-", "+") or (
            token.word in _DURATION_FUNCTIONS and cursor.peek(1).is_symbol("(")
        )
    else:
        found = token.is_symbol(*_ARITHMETIC)
    if found:
        message = f"arithmetic in a duration {_NOT_YET}"
        cursor.refuse(token.span, message, "write the resulting duration, as in [10m]")


def _duration(cursor: Cursor, sign: int = 1, start: int | None = None) -> Duration:
    token = cursor.next()
    value = token.value if isinstance(token.value, int | float) else 0
    seconds_ms = value if token.kind is Kind.DURATION else value * 1000
    span = token.span if start is None else Span(start, token.span.end)
    if not math.isfinite(seconds_ms) or abs(seconds_ms) > LONGEST_MS:
        cursor.report(span, "the duration is out of range", "the longest is about 292y")
        seconds_ms = 0
    return Duration(span, sign * int(seconds_ms))


def _offset(cursor: Cursor, expr: Expr) -> Expr:
    keyword = cursor.next()
    sign = cursor.accept("-", "+")
    if cursor.peek().kind not in {Kind.NUMBER, Kind.DURATION}:
        if cursor.at("(") or cursor.at_word(*_DURATION_FUNCTIONS):
            _refuse_duration_expression(cursor, starts=True)
        cursor.fail("offset", "a duration", lambda: hints.for_duration(cursor))
    direction = -1 if sign is not None and sign.text == "-" else 1
    offset = _duration(cursor, direction, None if sign is None else sign.span.start)
    span = Span(expr.span.start, offset.span.end)
    if hints.spaced_duration(cursor):
        _refuse_unitless(cursor, "offset", "an operator or the end of the expression")
    held = _holder(expr)
    if held is None:
        message = "offset must follow a selector, a range or a subquery"
        cursor.report(
            span, message, hints.for_modifier_elsewhere(cursor, expr, keyword, offset.span)
        )
        return expr
    if held.offset is not None and held.offset.milliseconds:
        cursor.report(span, "offset is given twice", hints.for_double_offset(held.offset, offset))
    if isinstance(expr, MatrixSelector):
        return replace(expr, span=span, selector=replace(expr.selector, offset=offset))
    return replace(held, span=span, offset=offset)


def _at(cursor: Cursor, expr: Expr) -> Expr:
    symbol = cursor.next()
    at = _anchor(cursor, symbol.span)
    span = Span(expr.span.start, at.span.end)
    held = _holder(expr)
    if held is None:
        message = "@ must follow a selector, a range or a subquery"
        cursor.report(span, message, hints.for_modifier_elsewhere(cursor, expr, symbol, at.span))
        return expr
    if held.at is not None:
        cursor.report(span, "@ is given twice", "keep one of them")
    if isinstance(expr, MatrixSelector):
        return replace(expr, span=span, selector=replace(expr.selector, at=at))
    return replace(held, span=span, at=at)


def _anchor(cursor: Cursor, start: Span) -> At:
    if cursor.at_word("start", "end"):
        word = cursor.next().word
        if not cursor.at("("):
            cursor.fail("@", f'"(" after "{word}"', lambda: f"write @ {word}()")
        cursor.enter()
        closing = cursor.leave(")", "@", '")"', lambda: f"write @ {word}()")
        return At(start.to(closing.span), "start" if word == "start" else "end")
    sign = cursor.accept("-", "+")
    token = cursor.peek()
    if token.kind not in {Kind.NUMBER, Kind.DURATION}:
        cursor.fail("@", "a timestamp (unix seconds)", lambda: hints.for_timestamp(cursor))
    cursor.next()
    value = float(token.value) * (1 if token.kind is Kind.DURATION else 1000)
    span = start.to(token.span)
    if not math.isfinite(value) or abs(value) >= 2.0**63:
        cursor.refuse(
            span, "the timestamp is out of range", "write unix seconds, as in @ 1700000000"
        )
    negative = sign is not None and sign.text == "-"
    return At(span, math.floor((-value if negative else value) + 0.5))


def _holder(expr: Expr) -> VectorSelector | Subquery | None:
    """The node that offset and `@` sit on."""
    match expr:
        case MatrixSelector(selector=selector):
            return selector
        case VectorSelector() | Subquery():
            return expr
        case _:
            return None
