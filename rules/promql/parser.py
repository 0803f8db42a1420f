"""PromQL text into a syntax tree.

Operators by precedence with two explicit stacks (operands, operators), everything else by
recursive descent, so that only brackets cost Python frames; their nesting and the height of the
tree are bounded. The language is Prometheus 3's, with every experimental part of it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, get_args

from rules.promql.ast import (
    Aggregate,
    AggregateOp,
    Call,
    Expr,
    NumberLiteral,
    Paren,
    StringLiteral,
    Unary,
    ValueType,
    children,
)
from rules.promql.cursor import CODE, MAX_PROBLEMS, Cursor, in_order
from rules.promql.functions import AGGREGATORS, FUNCTIONS
from rules.promql.hints import expressions as hints
from rules.promql.hints.ranges import spaced_duration
from rules.promql.lexer import tokenize
from rules.promql.modifiers import read_modifiers
from rules.promql.operators import Pending, is_operator, read_operator, reduce_binary
from rules.promql.selectors import read_labels, read_selector
from rules.promql.tokens import (
    GROUPING_WORDS,
    RESERVED,
    RIGHT_ASSOCIATIVE,
    SET_OPERATORS,
    UNARY_PRECEDENCE,
    Kind,
    Token,
    shorten,
)
from rules.promql.types import check, type_of
from rules.source import Problem, ProblemsError, Source, Span

# Brackets within brackets. Each level costs the parser five Python frames of the usual thousand.
MAX_NESTING: Final = 100
# The longest path from the root to a leaf, a chain of operators included, so that whoever walks a
# tree may recurse.
MAX_HEIGHT: Final = 256

_SIGNS: Final = ("+", "-")
_NO_FUNCTIONS: Final = GROUPING_WORDS | {*SET_OPERATORS, "offset"}
_AGGREGATE_OPS: Final[dict[str, AggregateOp]] = {op: op for op in get_args(AggregateOp)}


def parse(text: str | Source) -> Expr:
    """The type-checked syntax tree of one PromQL expression.

    Raises ProblemsError: the first syntax error, or every type error, each with its span.
    """
    source = text if isinstance(text, Source) else Source("<expression>", text)
    cursor = Cursor(source, tokenize(source.text))
    if cursor.peek().kind is Kind.END:
        cursor.refuse(cursor.peek().span, "empty expression", "write one, as in up == 0")
    expr = _Expressions(cursor).whole()
    problems = cursor.problems or cursor.deferred + [
        Problem(source, found.span, found.message, found.hint, CODE)
        for found in islice(check(expr, source.text), MAX_PROBLEMS)
    ]
    if problems:
        raise ProblemsError(in_order(problems))
    return expr


class _Expressions:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.nesting = 0
        self.enclosing: list[Token] = []

    def whole(self) -> Expr:
        cursor = self.cursor
        expr = self.expression()
        if cursor.peek().kind is not Kind.END:
            expected = "an operator or the end of the expression"
            cursor.fail("", expected, lambda: hints.after_expression(cursor, self.enclosing))
        self._check_height(expr)
        return expr

    def expression(self) -> Expr:
        """Operands and operators up to the first token that is neither."""
        operands: list[tuple[Expr, ValueType]] = []
        operators: list[Pending] = []
        while True:
            while self.cursor.at(*_SIGNS):
                operators.append(Pending(self.cursor.next(), UNARY_PRECEDENCE, unary=True))
            operand = self._operand(operators)
            operands.append((operand, type_of(operand)))
            if not is_operator(self.cursor):
                break
            operator = read_operator(self.cursor)
            self._reduce(operands, operators, operator)
            operators.append(operator)
        self._reduce(operands, operators, None)
        return operands[0][0]

    def _reduce(
        self,
        operands: list[tuple[Expr, ValueType]],
        operators: list[Pending],
        upcoming: Pending | None,
    ) -> None:
        """Apply every stacked operator that binds at least as close as the upcoming one."""
        while operators:
            top = operators[-1]
            if upcoming is not None and (
                top.precedence < upcoming.precedence
                or (
                    top.precedence == upcoming.precedence
                    and upcoming.token.text in RIGHT_ASSOCIATIVE
                )
            ):
                return
            operators.pop()
            operand, kind = operands.pop()
            if top.unary:
                operands.append((_signed(top.token, operand), kind))
                continue
            lhs, lhs_kind = operands.pop()
            binary = reduce_binary(self.cursor, top, lhs, lhs_kind, operand, kind)
            operands.append((binary, _binary_type(lhs_kind, kind)))

    def _operand(self, operators: list[Pending]) -> Expr:
        cursor = self.cursor
        token = cursor.peek()
        match token.kind:
            case Kind.NUMBER:
                cursor.next()
                self._refuse_spaced(token)
                expr: Expr = NumberLiteral(token.span, float(token.value))
            case Kind.DURATION:
                cursor.next()
                self._refuse_spaced(token)
                expr = NumberLiteral(token.span, float(token.value) / 1000, duration=True)
            case Kind.STRING:
                cursor.next()
                expr = StringLiteral(token.span, str(token.value))
            case Kind.NAME if token.word not in RESERVED:
                expr = self._named(cursor.next())
            case _ if token.is_symbol("("):
                expr = self._paren()
            case _ if token.is_symbol("{"):
                expr = read_selector(cursor, None)
            case _:
                after = f' after "{operators[-1].token.text}"' if operators else ""
                cursor.fail("", f"an expression{after}", lambda: hints.for_operand(cursor))
        return read_modifiers(cursor, expr)

    def _refuse_spaced(self, number: Token) -> None:
        """Fail at a duration with a space in it, rather than after the space."""
        meant = spaced_duration(self.cursor)
        if meant is not None:
            token = self.cursor.peek()
            message = f"unexpected {token.described} after {number.text}, expected an operator"
            hint = f"write it without spaces: {meant}"
            self.cursor.refuse(number.span.to(token.span), message, hint)

    def _named(self, name: Token) -> Expr:
        cursor = self.cursor
        called = cursor.at("(")
        if name.word in AGGREGATORS and (called or cursor.at_word(*GROUPING_WORDS)):
            return self._aggregate(name)
        if called and ":" not in name.text:
            return self._call(name)
        return read_selector(cursor, name)

    def _paren(self) -> Paren:
        opening = self._enter()
        expr = self.expression()
        closing = self._leave('")"')
        return Paren(opening.span.to(closing.span), expr)

    def _call(self, name: Token) -> Call:
        cursor = self.cursor
        if name.word in _NO_FUNCTIONS:
            message = f"unexpected {name.described}, expected an expression"
            cursor.refuse(name.span, message, hints.for_keyword(name.word))
        if name.text not in FUNCTIONS:
            message, hint = hints.for_unknown_function(name)
            cursor.report(name.span, message, hint)
        args, span = self._arguments(name)
        return Call(span, name.text, name.span, args)

    def _arguments(self, name: Token) -> tuple[tuple[Expr, ...], Span]:
        cursor = self.cursor
        self.enclosing.append(name)
        self._enter()
        args: list[Expr] = []
        while not cursor.at(")"):
            args.append(self.expression())
            comma = cursor.accept(",")
            if comma is None:
                break
            if cursor.at(","):
                message = 'unexpected ",", expected an expression between the commas'
                cursor.refuse(comma.span.to(cursor.peek().span), message, "remove one comma")
            if cursor.at(")"):
                cursor.report(
                    comma.span, "no comma is allowed after the last argument", "remove it"
                )
        closing = self._leave('"," or ")"')
        self.enclosing.pop()
        return tuple(args), name.span.to(closing.span)

    def _aggregate(self, name: Token) -> Expr:
        cursor = self.cursor
        aggregator = AGGREGATORS[name.word]
        grouping = self._grouping()
        if not cursor.at("("):
            expected = f'"(" after {"the labels" if grouping else name.described}'
            cursor.fail("aggregation", expected, lambda: hints.for_aggregation(cursor, name))
        args, span = self._arguments(name)
        if grouping is None and (grouping := self._grouping()):
            span = Span(span.start, cursor.peek(-1).span.end)
        keyword, labels = grouping or ("by", ())
        wanted = 1 if aggregator.param is None else 2
        if len(args) != wanted:
            message, hint = hints.for_aggregator_arguments(cursor, aggregator, args)
            cursor.report(name.span, message, hint)
            return Paren(span, args[-1]) if args else NumberLiteral(span, 0.0)
        param = args[0] if wanted == 2 else None
        return Aggregate(
            span, _AGGREGATE_OPS[aggregator.name], args[-1], param, labels, keyword == "without"
        )

    def _grouping(self) -> tuple[str, tuple[str, ...]] | None:
        keyword = self.cursor.accept_word(*GROUPING_WORDS)
        return None if keyword is None else (keyword.word, read_labels(self.cursor, keyword))

    def _enter(self) -> Token:
        token = self.cursor.enter()
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self._too_deep(token.span, f"brackets are nested more than {MAX_NESTING} levels deep")
        return token

    def _leave(self, expected: str) -> Token:
        cursor = self.cursor
        self.nesting -= 1
        opener = cursor.open[-1]
        context = f'"{opener.text}"'
        if self.enclosing and opener is self.cursor.open[-1]:
            context = f"the arguments of {shorten(self.enclosing[-1].text)}"
        if cursor.peek().kind is Kind.END:
            context = ""
        return cursor.leave(
            ")", context, expected, lambda: hints.after_expression(cursor, self.enclosing)
        )

    def _check_height(self, expr: Expr) -> None:
        level = [expr]
        for _ in range(MAX_HEIGHT):
            level = [child for node in level for child in children(node)]
            if not level:
                return
        start = level[0].span.start
        message = f"the expression is nested more than {MAX_HEIGHT} levels deep"
        self._too_deep(Span(start, start + 1), message)

    def _too_deep(self, span: Span, message: str) -> None:
        hint = "split it with recording rules, or match many values with one regular expression"
        self.cursor.refuse(span, message, hint)


def _signed(sign: Token, operand: Expr) -> Expr:
    span = sign.span.to(operand.span)
    negative = sign.text == "-"
    if isinstance(operand, NumberLiteral):
        value = -operand.value if negative else operand.value
        return NumberLiteral(span, value, duration=operand.duration)
    return Unary(span, "-" if negative else "+", operand)


def _binary_type(lhs: ValueType, rhs: ValueType) -> ValueType:
    scalar = lhs is ValueType.SCALAR and rhs is ValueType.SCALAR
    return ValueType.SCALAR if scalar else ValueType.VECTOR
