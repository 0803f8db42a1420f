"""PromQL text into a syntax tree.

Operators by precedence with two explicit stacks (operands, operators), brackets with a third, so
that no text costs Python frames and every text costs time linear in its length. The language is
Prometheus 3's, with every experimental part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rules.promql import hints, types
from rules.promql.aggregations import aggregation, read_grouping
from rules.promql.ast import (
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.cursor import Cursor, in_order
from rules.promql.duration_reading import spaced_duration
from rules.promql.functions import AGGREGATORS, FUNCTIONS
from rules.promql.lexer import tokenize
from rules.promql.modifiers import read_modifiers
from rules.promql.operators import Pending, read_operator, reduce_binary
from rules.promql.selectors import read_selector
from rules.promql.tokens import (
    GROUPING_WORDS,
    PRECEDENCE,
    RANGE_MODIFIERS,
    RESERVED,
    RIGHT_ASSOCIATIVE,
    SET_OPERATORS,
    UNARY_PRECEDENCE,
    Kind,
    Token,
    shorten,
)
from rules.slotted import dataclass, field
from rules.source import ProblemsError, Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rules.promql.aggregations import Grouping

# Brackets within brackets.
MAX_NESTING: Final = 2_000
# The longest path from the root to a leaf, a chain of operators included.
MAX_HEIGHT: Final = 10_000

_SIGNS: Final = ("+", "-")
_SPACED: Final = (Kind.NAME, Kind.DURATION)
_MODIFIER_SYMBOLS: Final = frozenset({"[", "@"})
_MODIFIER_WORDS: Final = RANGE_MODIFIERS | {"offset"}
_NO_FUNCTIONS: Final = GROUPING_WORDS | {*SET_OPERATORS, "offset"}


def parse(text: str | Source) -> Expr:
    """The type-checked syntax tree of one PromQL expression.

    Raises ProblemsError: the first syntax error, or every type error, each with its span.
    """
    source = text if isinstance(text, Source) else Source("<expression>", text)
    cursor = Cursor(source, tokenize(source.text))
    if cursor.token.kind is Kind.END:
        cursor.refuse(cursor.token.span, "empty expression", "write one, as in up == 0")
    expr = _Expressions(cursor).whole()
    problems = cursor.problems or cursor.deferred
    if problems:
        raise ProblemsError(in_order(problems))
    return expr


class _Operand(NamedTuple):
    """An expression that is read, with what its parents ask for."""

    expr: Expr
    kind: ValueType
    # The longest path down from it, itself included.
    height: int


@dataclass(slots=True, eq=False)
class _Bracket:
    """An open bracket, or the whole expression, and what is read inside of it."""

    opening: Token | None = None
    # The function or aggregator before it.
    name: Token | None = None
    aggregate: bool = False
    grouping: Grouping | None = None
    args: list[_Operand] = field(default_factory=list)
    operands: list[_Operand] = field(default_factory=list)
    operators: list[Pending] = field(default_factory=list)


class _Expressions:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.current = _Bracket()
        self.brackets: list[_Bracket] = []
        self.enclosing: list[Token] = []
        # Checked at the end: inside info(...) one may be no selector but a choice of labels.
        self.selectors: dict[int, VectorSelector] = {}

    def whole(self) -> Expr:
        while True:
            self._operand()
            if self._complete():
                break
        for selector in self.selectors.values():
            self._defer(types.check_selector(selector, self.cursor.source.text))
        return self.current.operands[0].expr

    def _operand(self) -> None:
        """Signs and opening brackets, up to the end of one operand."""
        cursor = self.cursor
        while True:
            token = cursor.token
            match token.kind:
                case Kind.NAME if token.word not in RESERVED:
                    if self._named(cursor.next()):
                        return
                    continue
                case Kind.NUMBER:
                    self._number(cursor.next(), float(token.value), duration=False)
                case Kind.DURATION:
                    self._number(cursor.next(), float(token.value) / 1000, duration=True)
                case Kind.SYMBOL if token.symbol in _SIGNS:
                    sign = Pending(cursor.next(), UNARY_PRECEDENCE, unary=True)
                    self.current.operators.append(sign)
                    continue
                case Kind.SYMBOL if token.symbol == "(":
                    self._enter()
                    continue
                case Kind.SYMBOL if token.symbol == "{":
                    self._push(read_selector(cursor, None), ValueType.VECTOR, 1)
                case Kind.STRING:
                    cursor.next()
                    self._push(StringLiteral(token.span, str(token.value)), ValueType.STRING, 1)
                case _:
                    operators = self.current.operators
                    after = f' after "{operators[-1].token.text}"' if operators else ""
                    cursor.fail(
                        "", f"an expression{after}", lambda: hints.expressions.for_operand(cursor)
                    )
            return

    def _number(self, token: Token, value: float, *, duration: bool) -> None:
        after = self.cursor.token.kind
        if after in _SPACED and (meant := spaced_duration(self.cursor)) is not None:
            # Fail at a duration with a space in it, rather than after the space.
            following = self.cursor.token
            message = f"unexpected {following.described} after {token.text}, expected an operator"
            hint = f"write it without spaces: {meant}"
            self.cursor.refuse(token.span.to(following.span), message, hint)
        self._push(NumberLiteral(token.span, value, duration), ValueType.SCALAR, 1)

    def _named(self, name: Token) -> bool:
        """A selector, or the start of a call or aggregation; whether an operand is complete."""
        cursor = self.cursor
        called = cursor.token.symbol == "("
        if name.word in AGGREGATORS and (called or cursor.token.word in GROUPING_WORDS):
            grouping = read_grouping(cursor)
            if cursor.token.symbol != "(":
                expected = f'"(" after {"the labels" if grouping else name.described}'
                cursor.fail(
                    "aggregation", expected, lambda: hints.expressions.for_aggregation(cursor, name)
                )
            return self._open_arguments(_Bracket(name=name, aggregate=True, grouping=grouping))
        if called and ":" not in name.text:
            if name.word in _NO_FUNCTIONS:
                message = f"unexpected {name.described}, expected an expression"
                cursor.refuse(name.span, message, hints.expressions.for_keyword(name.word))
            if name.text not in FUNCTIONS:
                message, hint = hints.expressions.for_unknown_function(name)
                cursor.report(name.span, message, hint)
            return self._open_arguments(_Bracket(name=name))
        self._push(read_selector(cursor, name), ValueType.VECTOR, 1)
        return True

    def _open_arguments(self, bracket: _Bracket) -> bool:
        """Enter the arguments of a call; whether it is complete, having none."""
        if bracket.name is not None:
            self.enclosing.append(bracket.name)
        self._enter(bracket)
        if self.cursor.token.symbol != ")":
            return False
        self._leave([])
        return True

    def _enter(self, bracket: _Bracket | None = None) -> None:
        bracket = bracket or _Bracket()
        bracket.opening = opening = self.cursor.enter()
        self.brackets.append(self.current)
        self.current = bracket
        if len(self.brackets) > MAX_NESTING:
            message = f"brackets are nested more than {MAX_NESTING:,} levels deep"
            self._too_deep(opening.span, message)

    def _complete(self) -> bool:
        """After an operand: read an operator, or close brackets; whether all is read."""
        cursor = self.cursor
        while True:
            token = cursor.token
            if token.symbol in PRECEDENCE or token.word in PRECEDENCE:
                operator = read_operator(cursor)
                self._reduce(operator)
                self.current.operators.append(operator)
                return False
            self._reduce(None)
            current = self.current
            if current.opening is None:
                if token.kind is not Kind.END:
                    expected = "an operator or the end of the expression"
                    cursor.fail(
                        "", expected, lambda: hints.expressions.after_expression(cursor, ())
                    )
                return True
            if current.name is None:
                self._leave_parentheses(current.opening)
            elif self._next_argument():
                return False

    def _next_argument(self) -> bool:
        """After an argument: whether another one follows, else the call is complete."""
        cursor, current = self.cursor, self.current
        current.args.append(current.operands.pop())
        comma = cursor.accept(",")
        if comma is not None:
            if cursor.at(","):
                message = 'unexpected ",", expected an expression between the commas'
                cursor.refuse(comma.span.to(cursor.token.span), message, "remove one comma")
            if not cursor.at(")"):
                return True
            cursor.report(comma.span, "no comma is allowed after the last argument", "remove it")
        self._leave(current.args)
        return False

    def _leave_parentheses(self, opening: Token) -> None:
        inner = self.current.operands[0]
        closing = self._closing('")"')
        self.current = self.brackets.pop()
        paren = Paren(opening.span.to(closing.span), inner.expr)
        self._push(paren, inner.kind, inner.height + 1)

    def _leave(self, args: list[_Operand]) -> None:
        """Build the call or aggregation whose arguments are read."""
        bracket = self.current
        name = bracket.name
        if name is None:  # pragma: no cover
            raise AssertionError("only a name has arguments")
        closing = self._closing('"," or ")"')
        self.enclosing.pop()
        self.current = self.brackets.pop()
        span = name.span.to(closing.span)
        height = 1 + max((arg.height for arg in args), default=0)
        if bracket.aggregate:
            parts = [(arg.expr, arg.kind) for arg in args]
            node = aggregation(self.cursor, name, span, bracket.grouping, parts)
            self._push(node, _VECTOR, height)
            return
        call = Call(span, name.text, name.span, tuple(arg.expr for arg in args))
        signature = FUNCTIONS.get(name.text)
        if signature is not None:
            kinds = tuple(arg.kind for arg in args)
            self._defer(types.check_call(call, kinds, self.cursor.source.text))
        if name.text == "info" and len(args) > 1:
            self.selectors.pop(id(args[1].expr), None)
        self._push(call, _VECTOR if signature is None else signature.returns, height)

    def _closing(self, expected: str) -> Token:
        cursor = self.cursor
        context = ""
        if cursor.token.symbol != ")" and cursor.token.kind is not Kind.END:
            context = f'"{cursor.open[-1].text}"'
            if self.enclosing:
                context = f"the arguments of {shorten(self.enclosing[-1].text)}"
        return cursor.leave(
            ")",
            context,
            expected,
            lambda: hints.expressions.after_expression(cursor, self.enclosing),
        )

    def _push(self, expr: Expr, kind: ValueType, height: int) -> None:
        """An operand is read: add it with the modifiers that follow it."""
        token = self.cursor.token
        if token.symbol in _MODIFIER_SYMBOLS or token.word in _MODIFIER_WORDS:
            expr = read_modifiers(self.cursor, expr)
            if isinstance(expr, Subquery | MatrixSelector):
                height += self._check_ranges(expr, kind)
                kind = ValueType.MATRIX
        if isinstance(expr, VectorSelector):
            self.selectors[id(expr)] = expr
        self._check_height(height, expr.span)
        self.current.operands.append(_Operand(expr, kind, height))

    def _check_ranges(self, expr: Subquery | MatrixSelector, kind: ValueType) -> int:
        """Check every range around an operand; how many there are."""
        node: Expr = expr
        ranges = 0
        while isinstance(node, Subquery):
            ranges += 1
            inner = node.expr
            within = isinstance(inner, Subquery | MatrixSelector)
            found = types.check_subquery(
                node, ValueType.MATRIX if within else kind, self.cursor.source.text
            )
            self._defer(found)
            node = inner
        if isinstance(node, MatrixSelector):
            ranges += 1
            node = node.selector
        if isinstance(node, VectorSelector):
            self.selectors[id(node)] = node
        return ranges

    def _reduce(self, upcoming: Pending | None) -> None:
        """Apply every stacked operator that binds at least as close as the upcoming one."""
        operators, operands = self.current.operators, self.current.operands
        least = 0
        if upcoming is not None:
            least = upcoming.precedence + (upcoming.token.text in RIGHT_ASSOCIATIVE)
        while operators and operators[-1].precedence >= least:
            top = operators.pop()
            right = operands.pop()
            if top.unary:
                operands.append(self._signed(top.token, right))
                continue
            left = operands.pop()
            node = reduce_binary(self.cursor, top, left.expr, left.kind, right.expr, right.kind)
            text = self.cursor.source.text
            self._defer(types.check_binary(node, left.kind, right.kind, text))
            scalar = left.kind is right.kind is ValueType.SCALAR
            height = 1 + max(left.height, right.height)
            self._check_height(height, top.token.span)
            operands.append(_Operand(node, ValueType.SCALAR if scalar else _VECTOR, height))

    def _signed(self, sign: Token, operand: _Operand) -> _Operand:
        expr = operand.expr
        span = sign.span.to(expr.span)
        negative = sign.symbol == "-"
        if isinstance(expr, NumberLiteral):
            value = -expr.value if negative else expr.value
            return _Operand(NumberLiteral(span, value, expr.duration), operand.kind, 1)
        unary = Unary(span, "-" if negative else "+", expr)
        self._defer(types.check_unary(unary, operand.kind, self.cursor.source.text))
        self._check_height(operand.height + 1, sign.span)
        return _Operand(unary, operand.kind, operand.height + 1)

    def _defer(self, findings: Iterable[types.Finding]) -> None:
        for found in findings:
            self.cursor.defer(found.span, found.message, found.hint)

    def _check_height(self, height: int, span: Span) -> None:
        if height > MAX_HEIGHT:
            message = f"the expression is nested more than {MAX_HEIGHT:,} levels deep"
            self._too_deep(span, message)

    def _too_deep(self, span: Span, message: str) -> None:
        hint = "split it with recording rules, or match many values with one regular expression"
        self.cursor.refuse(span, message, hint)


_VECTOR: Final = ValueType.VECTOR
