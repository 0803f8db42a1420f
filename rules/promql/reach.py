"""How far back an expression looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql.ast import MatrixSelector, Subquery, VectorSelector, children

if TYPE_CHECKING:
    from rules.promql.ast import Expr


def reach_ms(expr: Expr, lookback_ms: int) -> int:
    """The age, in milliseconds, of the oldest sample that an evaluation can read.

    Ranges, offsets and the subqueries around them add up; where no range is asked for, an instant
    selector looks back `lookback_ms`. What `@` fixes in time has no age and is left out.
    """
    farthest = 0
    pending: list[tuple[Expr, int]] = [(expr, 0)]
    while pending:
        node, age = pending.pop()
        if isinstance(node, VectorSelector):
            farthest = max(farthest, age + _offset_ms(node) + lookback_ms)
        elif isinstance(node, MatrixSelector):
            farthest = max(farthest, age + _offset_ms(node.selector) + node.range.milliseconds)
        elif isinstance(node, Subquery):
            pending.append((node.expr, age + _offset_ms(node) + node.range.milliseconds))
        else:
            pending += [(child, age) for child in children(node)]
    return farthest


def _offset_ms(node: VectorSelector | Subquery) -> int:
    return 0 if node.offset is None else node.offset.milliseconds
