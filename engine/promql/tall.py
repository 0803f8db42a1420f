"""Trees higher than Python's stack: chains of thousands of operators, brackets a thousand deep.

Evaluation recurses from a node into its operands. Of a tall tree, nodes some levels apart are
evaluated from the bottom up first, and their values kept for those above, so that no recursion is
deeper than the distance between them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rules.promql.ast import Aggregate, Binary, Call, Expr, Paren, Subquery, Unary, children
from rules.promql.duration_expressions import durations
from rules.promql.functions import FUNCTIONS_WITH_MEMORY
from rules.promql.walk import walk
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.promql.context import Context, Partial

    Evaluate = Callable[[Expr, Context], Partial]

# Levels between nodes that are evaluated ahead. A level costs about five Python frames.
LEVELS: Final = 30


class Tree:
    """A tree as a key, by identity: comparing two would take longer than looking at one."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __hash__(self) -> int:
        return id(self.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and other.expr is self.expr


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What evaluation asks of a tree as a whole.

    `arithmetic`: a duration in it depends on the query. `remembers`: a function in it has memory.
    `high`: the nodes with more than LEVELS levels below them, by id. `ahead`: for the root and for
    what is evaluated at times of its own (in a subquery, or what a function remembers), the nodes
    to evaluate first, in order.
    """

    arithmetic: bool
    remembers: bool
    high: frozenset[int]
    ahead: Mapping[int, tuple[Expr, ...]]


def shape_of(expr: Expr) -> Shape:
    """The shape of a tree; that of trees seen lately is known."""
    return _shape_of(Tree(expr))


@lru_cache(maxsize=1024)
def _shape_of(tree: Tree) -> Shape:
    nodes = list(walk(tree.expr))
    arithmetic = any(one.expr is not None for node in nodes for one in durations(node))
    remembers = any(map(_remembers, nodes))
    heights: dict[int, int] = {}
    # Levels down to the nearest nodes that are evaluated ahead.
    steps: dict[int, int] = {}
    cut: set[int] = set()
    for node in reversed(nodes):
        below = children(node)
        heights[id(node)] = 1 + max((heights[id(child)] for child in below), default=0)
        steps[id(node)] = 1 + max((steps[id(child)] for child in below), default=0)
        if steps[id(node)] > LEVELS and isinstance(node, Paren | Unary | Binary | Aggregate | Call):
            cut.add(id(node))
            steps[id(node)] = 0
    if not cut:
        return Shape(arithmetic, remembers, frozenset(), {})
    high = frozenset(node for node, height in heights.items() if height > LEVELS)
    return Shape(arithmetic, remembers, high, _scopes(tree.expr, cut))


def _remembers(node: Expr) -> bool:
    return isinstance(node, Call) and node.func in FUNCTIONS_WITH_MEMORY


def _scopes(root: Expr, cut: set[int]) -> dict[int, tuple[Expr, ...]]:
    """The nodes to evaluate ahead, by the expression at whose times they are evaluated."""
    ahead: dict[int, list[Expr]] = {id(root): []}
    pending: list[tuple[Expr, int]] = [(root, id(root))]
    while pending:
        node, scope = pending.pop()
        if id(node) in cut:
            ahead[scope].append(node)
        if isinstance(node, Subquery) or _remembers(node):
            scope = id(children(node)[0])
            ahead[scope] = []
        pending += [(child, scope) for child in children(node)]
    return {scope: tuple(reversed(nodes)) for scope, nodes in ahead.items()}


def by_levels(shape: Shape, evaluate: Evaluate, evaluate_node: Evaluate) -> Evaluate:
    """A dispatch for one tall tree: `evaluate` for its low parts, node by node for the rest."""
    known: dict[int, Partial] = {}

    def dispatch(expr: Expr, context: Context) -> Partial:
        found = known.pop(id(expr), None)
        if found is not None:
            return found
        for node in shape.ahead.get(id(expr), ()):
            known[id(node)] = evaluate_node(node, context)
        # A root may be one of them itself.
        found = known.pop(id(expr), None)
        if found is not None:
            return found
        return (evaluate_node if id(expr) in shape.high else evaluate)(expr, context)

    return dispatch
