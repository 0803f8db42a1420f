"""Reads what follows a selector or sub-expression: `[5m]`, `[1h:5m]`, `offset 5m`, `@ 1700000000`.

They bind closer than any operator and may come in any order, save that a range comes before the
offset and `@` of its own selector.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rules.promql import hints
from rules.promql.ast import At, Duration, Expr, MatrixSelector, Subquery, VectorSelector
from rules.promql.duration_reading import read_offset, read_positive, spaced_duration
from rules.promql.tokens import RANGE_MODIFIERS, Kind
from rules.slotted import replace
from rules.source import Span

if TYPE_CHECKING:
    from rules.promql.ast import RangeModifier
    from rules.promql.cursor import Cursor


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
            expr = _modifier(cursor, expr)
        else:
            return expr


def _range(cursor: Cursor, expr: Expr) -> Expr:
    opening = cursor.enter()
    length = read_positive(cursor, "range")
    step: Duration | None = None
    if cursor.at("::"):
        hint = "with one colon the steps are multiples of the step already: [1h:1m]"
        cursor.refuse(cursor.peek().span, 'there is no "::" in a subquery', hint)
    colon = cursor.accept(":")
    if colon and not cursor.at("]"):
        step = read_positive(cursor, "step")
    expected = '"]"' if colon else '":" or "]"'
    context = "subquery" if colon else "range"
    if not cursor.at("]"):
        _refuse_unitless(cursor, context, expected)
    closing = cursor.leave("]", context, expected, lambda: hints.ranges.after_range(cursor))
    span = Span(expr.span.start, closing.span.end)
    if colon:
        return Subquery(span, expr, length, step)
    return _matrix(cursor, expr, length, span, opening.span.to(closing.span))


def _refuse_unitless(cursor: Cursor, context: str, expected: str) -> None:
    """Fail at a number without a unit rather than at what follows it: `[5 m]`, `[5, 1m]`."""
    number, token = cursor.peek(-1), cursor.peek()
    if number.kind is Kind.NUMBER and token.kind not in {Kind.END, Kind.BAD}:
        message = f"unexpected {token.described} after {number.text} in {context}"
        hint = hints.ranges.after_range(cursor)
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
    cursor.report(brackets, message, hints.ranges.for_range_elsewhere(cursor, expr, brackets))
    # The subquery it should have been, so that what follows is checked as usual.
    return Subquery(span, expr, length, None)


def _offset(cursor: Cursor, expr: Expr) -> Expr:
    keyword = cursor.next()
    offset = read_offset(cursor)
    span = Span(expr.span.start, offset.span.end)
    if spaced_duration(cursor):
        _refuse_unitless(cursor, "offset", "an operator or the end of the expression")
    held = _holder(expr)
    if held is None:
        message = "offset must follow a selector, a range or a subquery"
        cursor.report(
            span, message, hints.ranges.for_modifier_elsewhere(cursor, expr, keyword, offset.span)
        )
        return expr
    if held.offset is not None and (held.offset.milliseconds or held.offset.expr is not None):
        cursor.report(
            span, "offset is given twice", hints.ranges.for_double_offset(held.offset, offset)
        )
    if isinstance(expr, MatrixSelector):
        return replace(expr, span=span, selector=replace(expr.selector, offset=offset))
    return replace(held, span=span, offset=offset)


def _modifier(cursor: Cursor, expr: Expr) -> Expr:
    """`anchored` or `smoothed`: on a selector, with or without a range."""
    word = cursor.next()
    modifier: RangeModifier = "anchored" if word.word == "anchored" else "smoothed"
    selector = expr.selector if isinstance(expr, MatrixSelector) else expr
    if not isinstance(selector, VectorSelector):
        hint = f"it follows a selector or its range: rate(x[5m] {modifier})"
        what = "a subquery" if isinstance(expr, Subquery) else "this expression"
        cursor.report(word.span, f"{modifier} is not supported for {what}", hint)
        return expr
    if selector.modifier is not None and selector.modifier != modifier:
        cursor.report(word.span, "anchored and smoothed cannot be used together", "keep one")
    span = Span(expr.span.start, word.span.end)
    if isinstance(expr, MatrixSelector):
        return replace(expr, span=span, selector=replace(selector, modifier=modifier))
    return replace(selector, span=span, modifier=modifier)


def _at(cursor: Cursor, expr: Expr) -> Expr:
    symbol = cursor.next()
    at = _anchor(cursor, symbol.span)
    span = Span(expr.span.start, at.span.end)
    held = _holder(expr)
    if held is None:
        message = "@ must follow a selector, a range or a subquery"
        cursor.report(
            span, message, hints.ranges.for_modifier_elsewhere(cursor, expr, symbol, at.span)
        )
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
        cursor.fail("@", "a timestamp (unix seconds)", lambda: hints.ranges.for_timestamp(cursor))
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
