"""The statistics of ours in an alert's expression, and in what rules record for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from engine.explanation.parts import MIRRORED
from rules.promql.ast import (
    Aggregate,
    Binary,
    Call,
    NumberLiteral,
    Paren,
    Subquery,
    VectorSelector,
    children,
)
from rules.promql.functions import AGGREGATORS, FUNCTIONS, FUNCTIONS_WITH_MEMORY
from rules.promql.printer import format as format_expression
from rules.promql.walk import walk
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.explanation.parts import Part
    from rules.promql.ast import Expr

# Recorded names that lead to recorded names are followed so far.
MOST_NAMES: Final = 4
Recorded: TypeAlias = "Mapping[str, Expr]"


@dataclass(frozen=True, slots=True)
class Statistic:
    """A call or an aggregation of ours, and when the alert's expression asks for it.

    `recorded_as`: the rule that records it, "" where it stands in the expression itself.
    `limit`: the number that it is compared with, as it is or by `abs`; None if there is none.
    """

    node: Call | Aggregate
    time_ms: int
    recorded_as: str
    limit: float | None

    @property
    def name(self) -> str:
        """The function or aggregator."""
        return self.node.func if isinstance(self.node, Call) else self.node.op

    @property
    def text(self) -> str:
        """The expression in its canonical spelling."""
        return format_expression(self.node)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node still to be looked at, with what the nodes around it make of it.

    `names`: the recorded names that led here. `limit`: what the node itself is compared with.
    """

    node: Expr
    time_ms: int
    names: tuple[str, ...] = ()
    limit: float | None = None

    def inner(self, recorded: Recorded) -> list[_Place]:
        """The nodes in it, and what is recorded under its name."""
        node, time_ms = self.node, self.time_ms
        match node:
            case Subquery():
                time_ms = _end_of(node, time_ms)
            case VectorSelector(name=str(name)):
                if name not in recorded or name in self.names or len(self.names) == MOST_NAMES:
                    return []
                offset_ms = 0 if node.offset is None else node.offset.milliseconds
                names = (*self.names, name)
                return [_Place(recorded[name], time_ms - offset_ms, names, self.limit)]
            case Call(func=func) if func in FUNCTIONS_WITH_MEMORY:
                return []
        return [
            _Place(child, time_ms, self.names, self._limit_of(child)) for child in children(node)
        ]

    def _limit_of(self, child: Expr) -> float | None:
        match self.node:
            case Paren() | Call(func="abs"):
                return self.limit
            case Binary(op=op, lhs=lhs, rhs=rhs) if op in MIRRORED:
                other = rhs if child is lhs else lhs
                return other.value if isinstance(other, NumberLiteral) else None
        return None


def statistics_in(
    part: Part, time_ms: int, recorded: Recorded, limit: float | None = None
) -> list[Statistic]:
    """Each of them once, in source order, for an evaluation at a time.

    `limit`: what the part's left side is compared with, where that is one number. What stands
    inside of a subquery is looked at where the subquery ends. Nothing inside of a function with
    memory is: its argument is of all the past.
    """
    found: dict[tuple[str, int], Statistic] = {}
    pending = [_Place(part.left, time_ms, limit=limit)]
    if part.right is not None:
        pending.insert(0, _Place(part.right, time_ms))
    while pending:
        place = pending.pop()
        node = place.node
        if isinstance(node, Call | Aggregate) and _is_ours(node):
            recorded_as = place.names[-1] if place.names else ""
            one = Statistic(node, place.time_ms, recorded_as, place.limit)
            found.setdefault((one.text, one.time_ms), one)
        pending += reversed(place.inner(recorded))
    return list(found.values())


def has_statistic(expr: Expr) -> bool:
    """Whether an expression has one itself, whatever rules record for it."""
    return any(isinstance(node, Call | Aggregate) and _is_ours(node) for node in walk(expr))


def _is_ours(node: Call | Aggregate) -> bool:
    return FUNCTIONS[node.func].ours if isinstance(node, Call) else AGGREGATORS[node.op].ours


def _end_of(node: Subquery, time_ms: int) -> int:
    if node.at is not None and isinstance(node.at.anchor, int):
        time_ms = node.at.anchor
    return time_ms - (0 if node.offset is None else node.offset.milliseconds)
