"""What a baseline is of: an expression, whatever way it was written."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from engine.promql.tall import Tree
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    MatrixSelector,
    Paren,
    Subquery,
    Unary,
    VectorSelector,
)
from rules.promql.functions import FUNCTIONS_WITH_MEMORY
from rules.promql.printer import format as format_expression
from rules.promql.walk import unwrapped, walk
from rules.slotted import replace

if TYPE_CHECKING:
    from rules.promql.ast import Expr


def canonical(argument: Expr) -> str:
    """The text that expressions have in common which differ only in how they are written.

    Spaces, outer parentheses, and the order of matchers and of labels to group by do not matter.
    """
    return _canonical(Tree(argument))


def baselines_in(expr: Expr) -> dict[str, Call]:
    """The calls that remember in an expression, by the canonical text of their argument."""
    return {
        canonical(node.args[0]): node
        for node in walk(expr)
        if isinstance(node, Call) and node.func in FUNCTIONS_WITH_MEMORY
    }


@lru_cache(maxsize=1024)
def _canonical(tree: Tree) -> str:
    expr = unwrapped(tree.expr)
    changed: dict[int, Expr] = {}
    for node in reversed(list(walk(expr))):
        changed[id(node)] = _sorted(node, changed)
    return format_expression(changed[id(expr)])


def _sorted(node: Expr, changed: dict[int, Expr]) -> Expr:
    match node:
        case VectorSelector(matchers=matchers, name=name):
            order = sorted(matchers, key=lambda one: (one.label, one.op, one.value))
            fixed = [one.value for one in order if (one.label, one.op) == ("__name__", "=")]
            return replace(node, name=name or (fixed[0] if fixed else None), matchers=tuple(order))
        case MatrixSelector(selector=selector):
            inner = changed[id(selector)]
            return replace(node, selector=inner) if isinstance(inner, VectorSelector) else node
        case Subquery(expr=inner) | Paren(expr=inner) | Unary(expr=inner):
            return replace(node, expr=changed[id(inner)])
        case Binary(lhs=lhs, rhs=rhs):
            return replace(node, lhs=changed[id(lhs)], rhs=changed[id(rhs)])
        case Aggregate(expr=inner, param=param, grouping=grouping):
            return replace(
                node,
                expr=changed[id(inner)],
                param=None if param is None else changed[id(param)],
                grouping=tuple(sorted(grouping)),
            )
        case Call(args=args):
            return replace(node, args=tuple(changed[id(one)] for one in args))
        case _:
            return node
