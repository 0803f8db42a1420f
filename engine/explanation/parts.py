"""An alert's expression taken apart: what `and` and its like join, and what each part compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.promql.ast import Binary, ValueType
from rules.promql.tokens import SET_OPERATORS
from rules.promql.types import type_of
from rules.promql.walk import unwrapped
from rules.slotted import dataclass

if TYPE_CHECKING:
    from rules.promql.ast import Expr


# The comparisons, and what each is with its sides exchanged.
MIRRORED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Part:
    """`left op right`, or an expression that compares nothing: then `op` is "".

    `joined`: the set operator before it, "" for the first. A number alone is never on the left.
    """

    joined: str
    expr: Expr
    left: Expr
    op: str = ""
    right: Expr | None = None


def parts_of(expr: Expr) -> tuple[Part, ...]:
    """The parts in source order, whatever brackets are around them."""
    found = []
    pending = [("", expr)]
    while pending:
        joined, node = pending.pop()
        node = unwrapped(node)
        if isinstance(node, Binary) and node.op in SET_OPERATORS:
            pending += [(node.op, node.rhs), (joined, node.lhs)]
        else:
            found.append(_part(joined, node))
    return tuple(found)


def _part(joined: str, node: Expr) -> Part:
    if not isinstance(node, Binary) or node.return_bool or node.op not in MIRRORED:
        return Part(joined, node, node)
    if type_of(node.lhs) is ValueType.SCALAR:
        return Part(joined, node, node.rhs, MIRRORED[node.op], node.lhs)
    return Part(joined, node, node.lhs, node.op, node.rhs)
