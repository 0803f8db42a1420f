"""Whether an expression has a value only where its selectors find samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    Paren,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.functions import FUNCTIONS
from rules.promql.walk import walk

if TYPE_CHECKING:
    from rules.promql.ast import Expr

_SERIES = frozenset({ValueType.VECTOR, ValueType.MATRIX})
_ABSENCE = frozenset({"absent", "absent_over_time"})


def needs_samples(expr: Expr) -> bool:
    """Whether an expression gives no element wherever no selector in it finds a sample.

    `absent(x)`, `vector(1)` and `x or vector(0)` do give some. False where that is not sure.
    """
    known: dict[int, bool] = {}
    # Parents come before children.
    for node in reversed(list(walk(expr))):
        known[id(node)] = _needs(node, known)
    return known[id(expr)]


def _needs(node: Expr, known: dict[int, bool]) -> bool:
    match node:
        case VectorSelector() | MatrixSelector():
            return True
        case Subquery(expr=inner) | Paren(expr=inner) | Unary(expr=inner) | Aggregate(expr=inner):
            return known[id(inner)]
        case Binary():
            return _of_two(node, known[id(node.lhs)], known[id(node.rhs)])
        case Call(func=func, args=args):
            signature = FUNCTIONS[func]
            if func in _ABSENCE or signature.returns not in _SERIES:
                return False
            read = [known[id(arg)] for i, arg in enumerate(args) if signature.arg(i) in _SERIES]
            return bool(read) and all(read)
        case _:
            return False


def _of_two(node: Binary, left: bool, right: bool) -> bool:
    matching = node.matching
    fills = matching is not None and (matching.fill_left, matching.fill_right) != (None, None)
    if node.op == "or" or fills:
        return left and right
    return left if node.op == "unless" else left or right
