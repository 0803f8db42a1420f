"""Reads a binary operator with its modifiers and builds its node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from rules.promql import hints
from rules.promql.ast import Binary, BinaryOp, Cardinality, Expr, ValueType, VectorMatching
from rules.promql.selectors import read_labels
from rules.promql.tokens import (
    FILL_WORDS,
    GROUP_WORDS,
    MATCHING_WORDS,
    PRECEDENCE,
    SET_OPERATORS,
    Kind,
    Token,
)
from rules.slotted import replace

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor

_OPS: Final[dict[str, BinaryOp]] = {op: op for op in get_args(BinaryOp)}
_CARDINALITY: Final[dict[str, Cardinality]] = {
    "group_left": "many-to-one",
    "group_right": "one-to-many",
}


class Pending(NamedTuple):
    """An operator that waits for its right side. `matching`: as written, None if not written."""

    token: Token
    precedence: int
    unary: bool = False
    return_bool: bool = False
    matching: VectorMatching | None = None


def read_operator(cursor: Cursor) -> Pending:
    """`op [bool] [on|ignoring (...) [group_left|group_right [(...)]]] [fill (...)]`."""
    token = cursor.next()
    return_bool = cursor.accept_word("bool") is not None
    matching = _fill(cursor, _matching(cursor))
    return Pending(
        token, PRECEDENCE[token.word or token.text], return_bool=return_bool, matching=matching
    )


def _matching(cursor: Cursor) -> VectorMatching | None:
    keyword = cursor.accept_word(*MATCHING_WORDS)
    if keyword is None:
        if cursor.at_word(*GROUP_WORDS):
            group = cursor.peek()
            expected = f'"on" or "ignoring" before "{group.text}"'
            cursor.fail("", expected, lambda: hints.expressions.for_group_without_on(cursor))
        return None
    labels = read_labels(cursor, keyword)
    grouping = cursor.accept_word(*GROUP_WORDS)
    if grouping is None:
        return VectorMatching("one-to-one", keyword.word == "on", labels)
    include = read_labels(cursor, grouping) if cursor.at("(") else ()
    return VectorMatching(_CARDINALITY[grouping.word], keyword.word == "on", labels, include)


def _fill(cursor: Cursor, matching: VectorMatching | None) -> VectorMatching | None:
    """`fill (n)`, or `fill_left (n)` and `fill_right (m)` in any order, one of each."""
    values: dict[str, float] = {}
    while cursor.at_word(*FILL_WORDS) and cursor.peek(1).is_symbol("("):
        word = cursor.next()
        if values and (word.word == "fill" or word.word in values or "fill" in values):
            hint = "write fill (n) for both sides, or fill_left (n) fill_right (m)"
            cursor.refuse(word.span, f"{word.text} does not go with the fill before it", hint)
        values[word.word] = _fill_value(cursor, word)
    if not values:
        return matching
    both = values.get("fill")
    return replace(
        matching or VectorMatching("one-to-one", on=False, labels=()),
        fill_left=values.get("fill_left", both),
        fill_right=values.get("fill_right", both),
    )


def _fill_value(cursor: Cursor, word: Token) -> float:
    def example() -> str:
        return f"write a number: {word.word} (0)"

    cursor.enter()
    sign = cursor.accept("-", "+")
    token = cursor.peek()
    if token.kind not in {Kind.NUMBER, Kind.DURATION}:
        cursor.fail(word.word, "a number", example)
    cursor.next()
    value = float(token.value) / (1000 if token.kind is Kind.DURATION else 1)
    cursor.leave(")", word.word, '")"', example)
    return -value if sign is not None and sign.text == "-" else value


def reduce_binary(
    cursor: Cursor, op: Pending, lhs: Expr, lhs_type: ValueType, rhs: Expr, rhs_type: ValueType
) -> Binary:
    """The node of an operator whose sides are read. Vector matching only between vectors."""
    name = _OPS[op.token.word or op.token.text]
    span = lhs.span.to(rhs.span)
    matching: VectorMatching | None = None
    if lhs_type is rhs_type is ValueType.VECTOR:
        matching = op.matching or VectorMatching("one-to-one", on=False, labels=())
        if name in SET_OPERATORS and matching.cardinality == "one-to-one":
            matching = replace(matching, cardinality="many-to-many")
    elif op.matching is not None and (op.matching.labels or op.matching.include):
        keyword = "on" if op.matching.on else "ignoring"
        scalar = lhs if lhs_type is not ValueType.VECTOR else rhs
        message = f"{keyword} (...) is only allowed between instant vectors"
        hint = f"{cursor.text(scalar.span)[:40]} matches every series: remove {keyword} (...)"
        cursor.defer(span, message, hint)
    elif op.matching is not None and _fills(op.matching):
        scalar = lhs if lhs_type is not ValueType.VECTOR else rhs
        message = "fill is only allowed between instant vectors"
        cursor.defer(span, message, f"{cursor.text(scalar.span)[:40]} is never missing: remove it")
    return Binary(span, name, op.token.span, lhs, rhs, op.return_bool, matching)


def _fills(matching: VectorMatching) -> bool:
    return matching.fill_left is not None or matching.fill_right is not None
