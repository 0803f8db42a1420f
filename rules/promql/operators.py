"""Reads a binary operator with its modifiers and builds its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from rules.promql.ast import Binary, BinaryOp, Cardinality, Expr, ValueType, VectorMatching
from rules.promql.hints import expressions as hints
from rules.promql.selectors import read_labels
from rules.promql.tokens import (
    FILL_WORDS,
    GROUP_WORDS,
    MATCHING_WORDS,
    PRECEDENCE,
    SET_OPERATORS,
    Token,
)

if TYPE_CHECKING:
    from rules.promql.cursor import Cursor

_OPS: Final[dict[str, BinaryOp]] = {op: op for op in get_args(BinaryOp)}
_CARDINALITY: Final[dict[str, Cardinality]] = {
    "group_left": "many-to-one",
    "group_right": "one-to-many",
}


@dataclass(frozen=True, slots=True)
class Pending:
    """An operator that waits for its right side. `matching`: as written, None if not written."""

    token: Token
    precedence: int
    unary: bool = False
    return_bool: bool = False
    matching: VectorMatching | None = None


def is_operator(cursor: Cursor) -> bool:
    """Whether a binary operator comes next."""
    token = cursor.peek()
    return token.word in PRECEDENCE or token.is_symbol(*PRECEDENCE)


def read_operator(cursor: Cursor) -> Pending:
    """`op [bool] [on|ignoring (...) [group_left|group_right [(...)]]]`."""
    token = cursor.next()
    return_bool = cursor.accept_word("bool") is not None
    matching = _matching(cursor)
    if cursor.at_word(*FILL_WORDS) and cursor.peek(1).is_symbol("("):
        fill = cursor.peek()
        cursor.refuse(fill.span, f'the modifier "{fill.word}" is not supported yet')
    return Pending(
        token, PRECEDENCE[token.word or token.text], return_bool=return_bool, matching=matching
    )


def _matching(cursor: Cursor) -> VectorMatching | None:
    keyword = cursor.accept_word(*MATCHING_WORDS)
    if keyword is None:
        if cursor.at_word(*GROUP_WORDS):
            group = cursor.peek()
            expected = f'"on" or "ignoring" before "{group.text}"'
            cursor.fail("", expected, lambda: hints.for_group_without_on(cursor))
        return None
    labels = read_labels(cursor, keyword)
    grouping = cursor.accept_word(*GROUP_WORDS)
    if grouping is None:
        return VectorMatching("one-to-one", keyword.word == "on", labels)
    include = read_labels(cursor, grouping) if cursor.at("(") else ()
    return VectorMatching(_CARDINALITY[grouping.word], keyword.word == "on", labels, include)


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
            matching = VectorMatching("many-to-many", matching.on, matching.labels)
    elif op.matching is not None and (op.matching.labels or op.matching.include):
        keyword = "on" if op.matching.on else "ignoring"
        scalar = lhs if lhs_type is not ValueType.VECTOR else rhs
        message = f"{keyword} (...) is only allowed between instant vectors"
        hint = f"{cursor.text(scalar.span)[:40]} matches every series: remove {keyword} (...)"
        cursor.defer(span, message, hint)
    return Binary(span, name, op.token.span, lhs, rhs, op.return_bool, matching)
