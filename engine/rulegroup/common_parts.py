"""What rules have in common is computed once, until one of them writes what it was read from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.promql.sharing import Sharing
from engine.rulegroup.dependencies import reads_in
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.rulegroup.dependencies import Reads
    from engine.rulegroup.options import GroupOptions
    from rules.model import Rule
    from rules.promql.ast import Expr


class CommonParts:
    """The parts that rules share, for rules that are evaluated one after another."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.sharing = Sharing(tuple(own.tree for rule in rules for own in rule.expressions))
        self._time_ms: int | None = None
        # By identity; the nodes live as long as the trees.
        self._reads: dict[int, Reads] = {}

    def into(self, options: GroupOptions) -> GroupOptions:
        """The options with which these rules are to be evaluated."""
        return replace(options, engine=replace(options.engine, shared=self.sharing))

    def at(self, time_ms: int) -> None:
        """Evaluations at this time follow; what was known at another may have changed."""
        if time_ms != self._time_ms:
            self.clear()
        self._time_ms = time_ms

    def clear(self) -> None:
        """Anything may have changed."""
        self._time_ms = None
        self.sharing.clear()

    def written(self, rule: Rule) -> None:
        """A rule has written its series."""
        self.sharing.forget(partial(self._touches, rule))

    def _touches(self, rule: Rule, expr: Expr) -> bool:
        reads = self._reads.get(id(expr))
        if reads is None:
            reads = self._reads[id(expr)] = reads_in(expr)
        return reads.touches(rule)
