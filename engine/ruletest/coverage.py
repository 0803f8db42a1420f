"""Which rules and comparisons the tests have really tried.

A rule that no test evaluates to anything is not tested, whatever the tests expect of it. Neither
is a threshold if every element that any test showed it was on the same side. Both are found
after a simulation by evaluating rules and comparisons once more over what it left, so that
nothing here can change a verdict.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.promql.engine import EvaluationError
from engine.promql.value import Axis, Scalar, Vector
from rules.promql.ast import Aggregate, Binary, Call, Subquery, ValueType, children
from rules.promql.tokens import COMPARISONS
from rules.promql.types import type_of
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.rulegroup.options import GroupOptions
    from engine.ruletest.simulation import Simulation
    from engine.series import Float64Array, Int64Array, Queryable
    from rules.model import Expression, Group, Rule
    from rules.promql.ast import AggregateOp, Expr


@dataclass(slots=True)
class ComparisonCoverage:
    """A comparison of one of a rule's expressions, and what the tests showed it.

    `within`: the subqueries around it, the innermost first.
    """

    expression: Expression
    node: Binary
    within: tuple[Subquery, ...] = ()
    saw_true: bool = False
    saw_false: bool = False

    @property
    def covered(self) -> bool:
        """Whether tests showed it both."""
        return self.saw_true and self.saw_false


@dataclass(slots=True)
class RuleCoverage:
    """A rule. `gave`: in some test its expression gave an element."""

    rule: Rule
    group: Group
    comparisons: tuple[ComparisonCoverage, ...]
    gave: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing is left to find out."""
        return self.gave and all(comparison.covered for comparison in self.comparisons)


@dataclass(slots=True)
class Coverage:
    """What all tests of a run have tried, by rule file, group and position in the group."""

    _rules: dict[tuple[Path, str, int], RuleCoverage] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[RuleCoverage, ...]:
        """Every rule of every rule file, in order."""
        return tuple(self._rules.values())

    def register(self, groups: tuple[Group, ...]) -> None:
        """Count the rules of a test file, whether or not a test runs them."""
        for group in groups:
            for index, rule in enumerate(group.rules):
                key = (Path(group.file).resolve(), group.name, index)
                if key not in self._rules:
                    found = [one for own in rule.expressions for one in comparisons(own, own.tree)]
                    self._rules[key] = RuleCoverage(rule, group, tuple(found))

    def add(self, simulation: Simulation) -> None:
        """Take in one test."""
        positions: dict[int, int] = {}
        for runner in simulation.runners:
            index = positions.get(id(runner.group), 0)
            positions[id(runner.group)] = index + 1
            key = (Path(runner.group.file).resolve(), runner.group.name, index)
            about = self._rules[key]
            for stretch_ms in simulation.stretches_ms:
                if about.complete:
                    break
                _try(about, stretch_ms - runner.offset_ms, simulation)


def comparisons(
    expression: Expression, expr: Expr, within: tuple[Subquery, ...] = ()
) -> Iterator[ComparisonCoverage]:
    """Every comparison of a part of an expression, in source order."""
    if isinstance(expr, Binary) and expr.op in COMPARISONS:
        yield ComparisonCoverage(expression, expr, within)
    inner = (expr, *within) if isinstance(expr, Subquery) else within
    for child in children(expr):
        yield from comparisons(expression, child, inner)


def _try(about: RuleCoverage, times_ms: Int64Array, simulation: Simulation) -> None:
    storage, options = simulation.storage, simulation.options
    if not about.gave:
        found = _values(about.rule.expression.tree, times_ms, storage, options)
        about.gave = found is not None and found.size > 0
    for comparison in about.comparisons:
        if not comparison.saw_true:
            found = _values(_extreme(comparison, "max"), times_ms, storage, options)
            comparison.saw_true = found is not None and bool((found == 1).any())
        if not comparison.saw_false:
            found = _values(_extreme(comparison, "min"), times_ms, storage, options)
            comparison.saw_false = found is not None and bool((found == 0).any())


def _extreme(comparison: ComparisonCoverage, op: AggregateOp) -> Expr:
    """The largest or smallest answer, 1 or 0, that any element gets at a time of the rule.

    `x > 1` is asked as `max(x > bool 1)`; inside of `(...)[1h:]` over all steps of the subquery.
    """
    node: Expr = comparison.node
    if type_of(node) is ValueType.SCALAR:
        node = Call(node.span, "vector", node.span, (node,))
    else:
        node = replace(comparison.node, return_bool=True)
    for subquery in comparison.within:
        span = subquery.span
        node = Call(span, f"{op}_over_time", span, (replace(subquery, expr=node),))
    return Aggregate(node.span, op, node, None, (), without=False)


def _values(
    expr: Expr, times_ms: Int64Array, storage: Queryable, options: GroupOptions
) -> Float64Array | None:
    """The values of all elements at all times, float64[N]; None if it cannot be evaluated.

    Names are dropped last, so that two metrics with the same labels do not clash on the way.
    """
    step_ms = int(times_ms[1] - times_ms[0]) if len(times_ms) > 1 else 0
    engine = replace(options.engine, delayed_name_removal=True)
    try:
        axis = Axis(times_ms, step_ms, rule=True)
        value = options.evaluate(expr, axis, storage, engine).value
    except EvaluationError:
        # Why it failed is in the verdict already, at its time.
        return _values_by_step(expr, times_ms, storage, options)
    if isinstance(value, Scalar):
        return value.values
    return value.values[value.present] if isinstance(value, Vector) else None


# A rule that fails at most times fails the test; its coverage is not worth more than this.
_MOST_SINGLE_STEPS = 100


def _values_by_step(
    expr: Expr, times_ms: Int64Array, storage: Queryable, options: GroupOptions
) -> Float64Array | None:
    """Up to the first time that has a value, since one bad time spoils an axis."""
    if len(times_ms) == 1:
        return None
    for index in range(min(len(times_ms), _MOST_SINGLE_STEPS)):
        found = _values(expr, times_ms[index : index + 1], storage, options)
        if found is not None and found.size:
            return found
    return None
