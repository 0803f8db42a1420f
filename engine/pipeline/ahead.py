"""Rules' expressions evaluated on several cores, ahead of the rules that ask for them.

What a rule makes of its values takes little time, and most rules read only data. So a replay lets
forks evaluate the expressions of some of these rules while it goes through the others in order.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.forks import computed
from rules.errors import StallwatchError
from rules.promql.ast import Call, MatrixSelector, VectorSelector
from rules.promql.printer import format as format_expression
from rules.promql.walk import walk
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from engine.promql.context import Options
    from engine.promql.sharing import Sharing
    from engine.promql.value import Axis, Result
    from engine.rulegroup.options import Evaluate
    from engine.series import Queryable
    from rules.promql.ast import Expr

LOG = logging.getLogger(__name__)
# About how long functions of windows take, a plain selector being 1.
_COSTS = {
    "changes": 2, "delta": 2, "deriv": 8, "double_exponential_smoothing": 20, "idelta": 2,
    "increase": 2, "irate": 2, "mad_over_time": 30, "predict_linear": 9, "quantile_over_time": 5,
    "rate": 2, "resets": 2, "stddev_over_time": 6, "stdvar_over_time": 6,
}  # fmt: skip
_OTHER_COST = 3


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """An expression that will be asked for on this axis."""

    expr: Expr
    axis: Axis


class Ahead:
    """Evaluates as `evaluate` does; what `of` was told of may have been evaluated already."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._jobs: deque[Job] = deque()
        self._found: Generator[Result | None, None, None] | None = None

    @contextmanager
    def of(
        self, jobs: Sequence[Job], queryable: Queryable, options: Options, processes: int
    ) -> Iterator[None]:
        """These are asked for here, in this order; what they read does not change meanwhile."""
        alone = replace(options, workers=1)
        owners = shared_out(jobs, options.shared, processes)

        def one(number: int) -> Result | None:
            job = jobs[number]
            try:
                return self._evaluate(job.expr, job.axis, queryable, alone)
            except StallwatchError as error:
                LOG.debug("to be told when it is asked for: %s", error)
                return None

        if not any(owners):
            yield
            return
        self._jobs = deque(jobs)
        try:
            with closing(computed(one, owners)) as self._found:
                yield
        finally:
            self._found, self._jobs = None, deque()

    def __call__(self, expr: Expr, axis: Axis, queryable: Queryable, options: Options) -> Result:
        """See `engine.rulegroup.options.Evaluate`."""
        if self._found is not None and self._jobs and self._is_next(expr, axis):
            self._jobs.popleft()
            found = next(self._found, None)
            if found is not None:
                return found
        return self._evaluate(expr, axis, queryable, options)

    def _is_next(self, expr: Expr, axis: Axis) -> bool:
        job = self._jobs[0]
        return job.expr is expr and np.array_equal(job.axis.times_ms, axis.times_ms)


def shared_out(jobs: Sequence[Job], sharing: Sharing | None, processes: int) -> list[int]:
    """Which process gets each job: about equal work, and what shares parts stays together."""
    trees = [job.expr for job in jobs]
    families = list(range(len(jobs))) if sharing is None else sharing.families(trees)
    parts: dict[int, dict[str, int]] = {}
    for family, tree in zip(families, trees, strict=True):
        # What a family has twice is computed once.
        parts.setdefault(family, {}).update(costs_of(tree))
    costs = {family: sum(own.values()) for family, own in parts.items()}
    loads = [0] * processes
    owners = {}
    for family in sorted(costs, key=lambda family: -costs[family]):
        owners[family] = least = loads.index(min(loads))
        loads[least] += costs[family]
    return [owners[family] for family in families]


def costs_of(expr: Expr) -> dict[str, int]:
    """What takes time in an expression, and about how long; the unit is of no account."""
    costs = {}
    for node in walk(expr):
        match node:
            case Call(func=name, args=args) if any(isinstance(one, MatrixSelector) for one in args):
                costs[format_expression(node)] = _COSTS.get(name, _OTHER_COST)
            case VectorSelector():
                costs[format_expression(node)] = 1
            case _:
                pass
    return costs
