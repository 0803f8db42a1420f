"""Hints for ranges, subqueries, offset and @."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.durations import format_duration, suggest_duration
from rules.promql.ast import (
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    VectorSelector,
)
from rules.promql.duration_reading import spaced_duration
from rules.promql.functions import FUNCTIONS
from rules.promql.tokens import Kind, Token, shorten
from rules.promql.walk import selectors, walk

if TYPE_CHECKING:
    from rules.promql.ast import Duration, Expr
    from rules.promql.cursor import Cursor
    from rules.source import Span


def for_duration(cursor: Cursor) -> str:
    """A duration was to come."""
    token = cursor.peek()
    if token.kind is Kind.STRING:
        return f"remove the quotes: {token.value}"
    if token.is_symbol("]"):
        return "write how far to look back, as in [5m]"
    if token.is_symbol(":"):
        return "a subquery's range comes first: [1h:] or [1h:1m]"
    if token.word in {"min", "max"} and cursor.peek(1).is_symbol("("):
        return f"in a duration it is called {token.word}_of"
    if token.word in {"step", "range"}:
        return f"the query's own is {token.word}()"
    if token.kind is Kind.NAME:
        if cursor.peek(-1).is_symbol("[") and cursor.peek(-2).text in FUNCTIONS:
            return f"arguments are put in parentheses: {cursor.peek(-2).text}(...)"
        meant = suggest_duration(f"{token.text.lstrip('smhdwy')}{token.text[0]}")
        return f"write {meant}" if meant else "write a duration, as in 5m"
    return "write a duration, as in 5m"


def after_range(cursor: Cursor) -> str:
    """A range's duration is complete, and no bracket follows."""
    token, before = cursor.peek(), cursor.peek(-1)
    meant = spaced_duration(cursor)
    if meant is not None:
        return f"write it without spaces: {meant}"
    if token.kind is Kind.END:
        return 'add the missing "]"'
    if token.is_symbol(")", "}"):
        return f'close the range with "]" before "{token.text}"'
    if token.is_symbol(",") and cursor.peek(1).kind in {Kind.DURATION, Kind.NUMBER}:
        return f"range and step are separated by a colon: [{before.text}:{cursor.peek(1).text}]"
    return "a range is [5m]; a subquery is [1h:] or [1h:1m]"


def in_brackets(cursor: Cursor) -> str:
    """Within the brackets of a duration neither an operator nor their end follows."""
    token = cursor.peek()
    if token.is_symbol(","):
        return "only min_of(a, b) and max_of(a, b) take two arguments"
    return 'add the missing ")"' if token.is_symbol("]", ":") or token.kind is Kind.END else ""


def for_range_elsewhere(cursor: Cursor, expr: Expr, brackets: Span) -> str:
    """A range follows something that is no selector."""
    if isinstance(expr, MatrixSelector | Subquery):
        return "keep one range"
    if isinstance(expr, StringLiteral | NumberLiteral):
        return "only series have a range, as in x[5m]"
    length = cursor.text(brackets)[1:-1].strip()
    if isinstance(expr, Paren) and isinstance(expr.expr, VectorSelector):
        return f"put the range inside: ({cursor.text(expr.expr.span)}[{length}])"
    written = cursor.text(expr.span)
    subquery = f"{shorten(written)}[{length}:]"
    if written.endswith(")") and written.partition("(")[0].strip() in FUNCTIONS:
        name, _, inner = written.partition("(")
        if inner[:-1].strip() and "(" not in inner and "[" not in inner:
            return f"put the range inside: {name}({inner[:-1]}[{length}])"
    return f"a range over an expression is a subquery: {subquery}"


def for_modifier_elsewhere(cursor: Cursor, expr: Expr, keyword: Token, value: Span) -> str:
    """An offset or `@` follows something that is no selector."""
    modifier = cursor.text(keyword.span.to(value))
    targets: list[Expr] = [
        node for node in walk(expr) if isinstance(node, MatrixSelector | Subquery)
    ]
    targets = targets or list(selectors(expr))
    if len(targets) == 1:
        end = targets[0].span.end
        before = cursor.source.text[expr.span.start : end]
        after = cursor.source.text[end : expr.span.end]
        return f"put it inside: {shorten(f'{before} {modifier}{after}', 90)}"
    return f"put it inside, right after the selector or its range, as in rate(x[5m] {modifier})"


def for_double_offset(first: Duration, second: Duration) -> str:
    """Two offsets as one."""
    if first.expr is not None or second.expr is not None:
        return "keep one; arithmetic stands in brackets: offset (step() + 5m)"
    both = format_duration(first.milliseconds + second.milliseconds)
    return f"keep one; both together are offset {both}"


def for_timestamp(cursor: Cursor) -> str:
    """The time after `@` was to come."""
    token = cursor.peek()
    if token.kind is Kind.STRING and str(token.value).replace(".", "", 1).isdigit():
        return f"remove the quotes: @ {token.value}"
    return "write unix seconds, as in @ 1700000000, or @ start(), @ end()"
