"""Ways through a syntax tree. None of them recurses, so the depth of a tree costs no stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql.ast import Aggregate, Call, Expr, MatrixSelector, VectorSelector, children

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node, a parent before its children, in source order."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def selectors(expr: Expr) -> Iterator[VectorSelector]:
    """Every selector, those inside range selectors included, in source order."""
    return (node for node in walk(expr) if isinstance(node, VectorSelector))


def matrix_selectors(expr: Expr) -> Iterator[MatrixSelector]:
    """Every range selector, in source order."""
    return (node for node in walk(expr) if isinstance(node, MatrixSelector))


def calls(expr: Expr) -> Iterator[Call]:
    """Every function call, in source order."""
    return (node for node in walk(expr) if isinstance(node, Call))


def aggregates(expr: Expr) -> Iterator[Aggregate]:
    """Every aggregation, in source order."""
    return (node for node in walk(expr) if isinstance(node, Aggregate))
