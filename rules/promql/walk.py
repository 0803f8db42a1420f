"""Ways through a syntax tree. None of them recurses, so the depth of a tree costs no stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.promql.ast import Aggregate, Call, Expr, Paren, VectorSelector, children

if TYPE_CHECKING:
    from collections.abc import Iterator


def unwrapped(expr: Expr) -> Expr:
    """The expression inside any parentheses."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


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


def calls(expr: Expr) -> Iterator[Call]:
    """Every function call, in source order."""
    return (node for node in walk(expr) if isinstance(node, Call))


def aggregates(expr: Expr) -> Iterator[Aggregate]:
    """Every aggregation, in source order."""
    return (node for node in walk(expr) if isinstance(node, Aggregate))
