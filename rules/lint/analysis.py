"""What can be said of an expression without any data, for each of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.bounds import bounds
from rules.lint.label_flow import flow
from rules.lint.presence import Known, Presence, inside_absent, presence
from rules.promql.ast import VectorSelector
from rules.promql.walk import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.lint.intervals import Interval
    from rules.lint.label_flow import Flow
    from rules.lint.presence import Reason
    from rules.promql.ast import Expr


class Analysis:
    """Labels, values and presence of every node, worked out from the leaves up.

    `impossible`: why parts never give anything. `certain`: comparisons that hold whatever
    the values. Parts inside `absent` are left out of both: there nothing is what is hoped for.
    `recorded`: the labels of series that rules record, by name.
    """

    def __init__(
        self, expr: Expr, sample_interval_ms: int, recorded: Mapping[str, Flow] | None = None
    ) -> None:
        self.expr = expr
        recorded = recorded or {}
        self.impossible: list[Reason] = []
        self.certain: list[Reason] = []
        self._flows: dict[int, Flow] = {}
        self._bounds: dict[int, Interval] = {}
        self._presence: dict[int, Presence] = {}
        known = Known(self.presence, self.bounds, self.flow, sample_interval_ms)
        hidden = inside_absent(expr)
        # A parent comes before its children: backwards, every child is known first.
        for node in reversed(list(walk(expr))):
            own = id(node)
            labels = flow(node, self.flow)
            if isinstance(node, VectorSelector) and node.name and node.name in recorded:
                labels = recorded[node.name].with_fixed(labels.fixed)
            self._flows[own] = labels
            self._bounds[own] = bounds(node, self.bounds)
            self._presence[own], reason = presence(node, known)
            if reason is not None and own not in hidden:
                never = self._presence[own] is Presence.NEVER
                (self.impossible if never else self.certain).append(reason)

    def flow(self, node: Expr) -> Flow:
        """The labels that elements of a node can have."""
        return self._flows[id(node)]

    def bounds(self, node: Expr) -> Interval:
        """The values that elements of a node can have."""
        return self._bounds[id(node)]

    def presence(self, node: Expr) -> Presence:
        """How elements of a node come and go."""
        return self._presence[id(node)]
