"""Reads a duration: a literal, or arithmetic over literals, step(), range(), min_of and max_of.

Two explicit stacks, as for expressions, and no recursion: brackets cost no Python frames.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

from rules.durations import LONGEST_MS, suggest_duration
from rules.promql import hints
from rules.promql.ast import Binary, BinaryOp, Call, Duration, Expr, NumberLiteral, Paren, Unary
from rules.promql.duration_expressions import (
    MIN_AND_MAX,
    STEP_AND_RANGE,
    DurationExpressionError,
    milliseconds_of,
    value_ms,
)
from rules.promql.tokens import PRECEDENCE, UNARY_PRECEDENCE, Kind, Token
from rules.slotted import dataclass, field, replace
from rules.source import Span

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor

What = Literal["range", "step", "offset"]

_OPS: Final[dict[str, BinaryOp]] = {"+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "^": "^"}
_SIGNS: Final = ("+", "-")


def read_positive(cursor: Cursor, what: Literal["range", "step"]) -> Duration:
    """The duration of a range or of a subquery's step, arithmetic included; above 0."""
    return _Reading(cursor, what).whole()


def read_offset(cursor: Cursor) -> Duration:
    """The duration after `offset`.

    It ends with its first operand: `x offset 1m + 2m` adds 120 to what `x offset 1m` gives. Only
    brackets put arithmetic into it.
    """
    return _Reading(cursor, "offset").whole()


def spaced_duration(cursor: Cursor) -> str | None:
    """The duration that the tokens before and after the cursor spell, if they do."""
    token, before = cursor.peek(), cursor.peek(-1)
    if token.kind not in {Kind.NAME, Kind.DURATION}:
        return None
    return suggest_duration(cursor.text(before.span.to(token.span)))


@dataclass(slots=True)
class _Open:
    """A bracket that is open, or an operator that waits for its right side."""

    token: Token
    precedence: int = 0
    unary: bool = False
    # The function whose arguments the bracket holds.
    name: Token | None = None
    args: list[Expr] = field(default_factory=list)


class _Reading:
    def __init__(self, cursor: Cursor, what: What) -> None:
        self.cursor = cursor
        self.what = what
        self.operands: list[Expr] = []
        self.stack: list[_Open] = []
        self.depth = 0

    def whole(self) -> Duration:
        start = self.cursor.peek().span.start
        while True:
            self._operand()
            if self._ended():
                break
        self._reduce(0)
        expr = self.operands.pop()
        span = Span(start, self.cursor.peek(-1).span.end)
        if isinstance(expr, NumberLiteral):
            return self._literal(expr, span)
        return self._expression(expr, span)

    def _operand(self) -> None:
        """Signs and opening brackets, then a number, a duration, step() or range()."""
        cursor = self.cursor
        while True:
            token = cursor.peek()
            called = cursor.peek(1).is_symbol("(")
            if token.is_symbol(*_SIGNS) and self._takes_sign():
                self.stack.append(_Open(cursor.next(), UNARY_PRECEDENCE, unary=True))
            elif token.is_symbol("("):
                self._enter(None)
            elif token.word in MIN_AND_MAX and called:
                self._enter(cursor.next())
            elif token.word in STEP_AND_RANGE and called:
                self.operands.append(self._of_query(cursor.next()))
                return
            elif token.kind in {Kind.NUMBER, Kind.DURATION}:
                self.operands.append(_number(cursor.next()))
                return
            else:
                self._fail()

    def _of_query(self, name: Token) -> Call:
        """`step()` or `range()`."""
        self.cursor.enter()
        hint = f"{name.word}() takes no arguments"
        closing = self.cursor.leave(")", self.what, '")"', lambda: hint)
        return Call(name.span.to(closing.span), name.word, name.span, ())

    def _takes_sign(self) -> bool:
        return self.what != "offset" or self.depth > 0 or not self.stack

    def _ended(self) -> bool:
        """Close brackets; then go on with an operator or comma, or end."""
        cursor = self.cursor
        while True:
            if self.depth and cursor.at(")"):
                self._close()
                continue
            if self.depth and cursor.at(","):
                self._comma()
                return False
            if self.what == "offset" and not self.depth:
                return True
            operator = cursor.accept(*_OPS)
            if operator is None:
                if self.depth:
                    opener = cursor.open[-1]
                    expected = '"," or ")"' if self._bracket().name else '")"'
                    context = "" if cursor.peek().kind is Kind.END else f'"{opener.text}"'
                    cursor.fail(context, expected, lambda: hints.ranges.in_brackets(cursor))
                return True
            precedence = PRECEDENCE[operator.text]
            self._reduce(precedence, right=operator.text == "^")
            self.stack.append(_Open(operator, precedence))
            return False

    def _enter(self, name: Token | None) -> None:
        self.stack.append(_Open(self.cursor.enter(), name=name))
        self.depth += 1

    def _bracket(self) -> _Open:
        return next(item for item in reversed(self.stack) if not item.precedence)

    def _comma(self) -> None:
        bracket = self._bracket()
        if bracket.name is None or bracket.args:
            expected = '")"'
            self.cursor.fail(self.what, expected, lambda: hints.ranges.in_brackets(self.cursor))
        self._reduce(0)
        bracket.args.append(self.operands.pop())
        self.cursor.next()

    def _close(self) -> None:
        self._reduce(0)
        bracket = self.stack.pop()
        name = bracket.name
        if name is not None and not bracket.args:
            example = f"write {name.word}(step(), 1m)"
            self.cursor.fail(f"the arguments of {name.text}", '","', lambda: example)
        closing = self.cursor.leave(")", self.what, '")"', str)
        self.depth -= 1
        inner = self.operands.pop()
        if name is None:
            span = bracket.token.span.to(closing.span)
            self.operands.append(Paren(span, inner.expr if isinstance(inner, Paren) else inner))
        else:
            span = name.span.to(closing.span)
            self.operands.append(Call(span, name.word, name.span, (*bracket.args, inner)))
        if self.what == "offset" and not self.depth:
            self._reduce(0)

    def _reduce(self, upcoming: int, *, right: bool = False) -> None:
        """Apply what is stacked, up to the last bracket, and binds at least as close."""
        while self.stack:
            top = self.stack[-1]
            if not top.precedence or top.precedence < upcoming + right:
                return
            self.stack.pop()
            rhs = self.operands.pop()
            if top.unary:
                self.operands.append(_signed(top.token, rhs))
                continue
            lhs = self.operands.pop()
            self._refuse_zero(top.token, rhs)
            span = lhs.span.to(rhs.span)
            self.operands.append(Binary(span, _OPS[top.token.text], top.token.span, lhs, rhs))

    def _refuse_zero(self, operator: Token, rhs: Expr) -> None:
        while isinstance(rhs, Paren):
            rhs = rhs.expr
        if operator.text in {"/", "%"} and isinstance(rhs, NumberLiteral) and rhs.value == 0:
            what = "division" if operator.text == "/" else "modulo"
            hint = "write the resulting duration, as in 5m"
            self.cursor.report(operator.span.to(rhs.span), f"{what} by zero in a duration", hint)

    def _fail(self) -> None:
        expected = 'a duration or "]"' if self.what == "step" else "a duration"
        context = "subquery" if self.what == "step" else self.what
        self.cursor.fail(context, expected, lambda: hints.ranges.for_duration(self.cursor))

    def _literal(self, number: NumberLiteral, span: Span) -> Duration:
        cursor = self.cursor
        if not math.isfinite(number.value) or abs(number.value) * 1000 > LONGEST_MS:
            cursor.report(span, "the duration is out of range", "the longest is about 292y")
            return Duration(span, 1)
        milliseconds = milliseconds_of(number.value)
        if milliseconds <= 0 and self.what != "offset":
            message, hint = f"the {self.what} must be longer than 0", "write it as in [5m]"
            if milliseconds < 0:
                message = "a duration must be longer than 0"
                hint = "to look at another time use offset: x[5m] offset 1h"
            cursor.report(span, message, hint)
        return Duration(span, milliseconds)

    def _expression(self, expr: Expr, span: Span) -> Duration:
        duration = Duration(span, 0, expr)
        try:
            known = value_ms(duration, signed=self.what == "offset")
        except DurationExpressionError:
            # It may have a value in another query; what has none is an error of the evaluation.
            return duration
        return replace(duration, milliseconds=known)


def _number(token: Token) -> NumberLiteral:
    duration = token.kind is Kind.DURATION
    value = float(token.value)
    return NumberLiteral(token.span, value / 1000 if duration else value, duration=duration)


def _signed(sign: Token, operand: Expr) -> Expr:
    span = sign.span.to(operand.span)
    negative = sign.text == "-"
    if isinstance(operand, NumberLiteral):
        return replace(operand, span=span, value=-operand.value if negative else operand.value)
    return Unary(span, "-", operand) if negative else operand
