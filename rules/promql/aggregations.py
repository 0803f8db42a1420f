"""Reads what makes an aggregation beside its brackets: `by (…)` or `without (…)`, and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from rules.promql import hints, types
from rules.promql.ast import Aggregate, AggregateOp, NumberLiteral, Paren
from rules.promql.functions import AGGREGATORS
from rules.promql.selectors import read_labels
from rules.promql.tokens import GROUPING_WORDS
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.promql.ast import Expr, ValueType
    from rules.promql.cursor import Cursor
    from rules.promql.tokens import Token

# The keyword and the labels.
Grouping: TypeAlias = "tuple[str, tuple[str, ...]]"

_OPS: Final[dict[str, AggregateOp]] = {op: op for op in get_args(AggregateOp)}


def read_grouping(cursor: Cursor) -> Grouping | None:
    """`by (…)` or `without (…)`, where one stands here."""
    keyword = cursor.accept_word(*GROUPING_WORDS)
    return None if keyword is None else (keyword.word, read_labels(cursor, keyword))


def aggregation(
    cursor: Cursor,
    name: Token,
    span: Span,
    grouping: Grouping | None,
    args: Sequence[tuple[Expr, ValueType]],
) -> Expr:
    """An aggregation whose arguments are read; its grouping may still follow them.

    `span`: from its name to its bracket. With a wrong number of arguments, which is reported, it
    is something to go on with.
    """
    aggregator = AGGREGATORS[name.word]
    if grouping is None and (grouping := read_grouping(cursor)):
        span = Span(span.start, cursor.peek(-1).span.end)
    keyword, labels = grouping or ("by", ())
    most = 1 if aggregator.param is None else 2
    least = 1 if aggregator.optional else most
    if not least <= len(args) <= most:
        exprs = [expr for expr, _ in args]
        message, hint = hints.expressions.for_aggregator_arguments(cursor, aggregator, exprs)
        cursor.report(name.span, message, hint)
        return Paren(span, exprs[-1]) if exprs else NumberLiteral(span, 0.0)
    param, given = args[0] if len(args) == 2 else (None, None)
    expr, kind = args[-1]
    node = Aggregate(span, _OPS[aggregator.name], expr, param, labels, keyword == "without")
    for found in types.check_aggregate(node, given, kind, cursor.source.text):
        cursor.defer(found.span, found.message, found.hint)
    return node
