"""A rule's axis, step by step: needed only where an expression could look past a step.

A negative offset or `@` names samples that an instant query at t must not see yet, and
`start()` and `end()` differ from step to step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.value import Axis, Result, Scalar, Value, Vector
from rules.promql.ast import Call, Subquery, VectorSelector
from rules.promql.walk import walk
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.labels import Labels
    from engine.promql.context import Options
    from engine.series import Queryable, Series
    from rules.promql.ast import Expr, Matcher

Evaluate: TypeAlias = "Callable[[Expr, Axis, Queryable, Options], Result]"


def sees_the_future(expr: Expr, first_ms: int) -> bool:
    """Whether any part could name a time after its step, the first step being `first_ms`."""
    return any(_names_later(node, first_ms) for node in walk(expr))


def _names_later(node: Expr, first_ms: int) -> bool:
    match node:
        # They mean the step, also where a subquery evaluates them earlier.
        case Call(func="start" | "end"):
            return True
        # Alone it is held to what each step sees; in a subquery it would see as far as that goes.
        case Subquery(expr=inner) if any(map(_is_smoothed, walk(inner))):
            return True
        case VectorSelector(at=at, offset=offset) | Subquery(at=at, offset=offset):
            offset_ms = 0 if offset is None else offset.milliseconds
            anchor = None if at is None else at.anchor
            if isinstance(anchor, str) or offset_ms < 0:
                return True
            # A fixed time that every step has behind it is the same for all of them.
            return anchor is not None and anchor - offset_ms > first_ms
    return False


def _is_smoothed(node: Expr) -> bool:
    return isinstance(node, VectorSelector) and node.modifier == "smoothed"


@dataclass(frozen=True, slots=True)
class Until:
    """A Queryable that has no sample after `last_ms`."""

    queryable: Queryable
    last_ms: int

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """As the underlying one, cut at `last_ms`."""
        end_ms = min(end_ms, self.last_ms)
        return self.queryable.select(matchers, start_ms, end_ms) if start_ms <= end_ms else []


def evaluate_by_step(
    evaluate: Evaluate, expr: Expr, axis: Axis, queryable: Queryable, options: Options
) -> Result:
    """Every step as an instant query that sees no later sample; the results side by side."""
    results = []
    for time in axis.times_ms.tolist():
        single = Axis(np.array([time], dtype=np.int64), 0)
        results.append(evaluate(expr, single, Until(queryable, time), options))
    if not results:
        return evaluate(expr, Axis(axis.times_ms, axis.step_ms), queryable, options)
    warnings = dict.fromkeys(text for result in results for text in result.warnings)
    infos = dict.fromkeys(text for result in results for text in result.infos)
    value = _side_by_side([result.value for result in results])
    return Result(value, tuple(warnings), tuple(infos))


def _side_by_side(values: list[Value]) -> Value:
    first = values[0]
    if len(values) == 1 or not isinstance(first, Scalar | Vector):
        return first
    if isinstance(first, Scalar):
        return Scalar(
            np.concatenate([value.values for value in values if isinstance(value, Scalar)])
        )
    rows: dict[Labels, int] = {}
    vectors = [value for value in values if isinstance(value, Vector)]
    for vector in vectors:
        for labels in vector.labels:
            rows.setdefault(labels, len(rows))
    shape = (len(rows), len(vectors))
    numbers, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    for step, vector in enumerate(vectors):
        at = [rows[labels] for labels in vector.labels]
        numbers[at, step] = vector.values[:, 0]
        present[at, step] = vector.present[:, 0]
    return Vector(tuple(rows), numbers, present)
