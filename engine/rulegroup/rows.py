"""A rule's expression over an axis, in parts that each either have a result or failed."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import Labels
from engine.promql.engine import EvaluationError
from engine.promql.value import Axis, Scalar, Vector
from rules.errors import StallwatchError
from rules.model import AlertingRule
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.promql.value import Result
    from engine.rulegroup.options import GroupOptions
    from engine.series import Int64Array, Queryable
    from rules.model import Expression, Rule
    from rules.source import Span


LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive evaluation times with their result, or one time and why it has none.

    `times_ms`: int64[T], the evaluation times (the query ran `offset` earlier). `place`: of the
    error, `file:line:column`. `kept`: what the rule's resolve expression gave, where it has one.
    """

    times_ms: Int64Array
    rows: Vector | None
    error: str = ""
    place: str = ""
    warnings: tuple[str, ...] = ()
    kept: Vector | None = None


def evaluate_rule(
    rule: Rule,
    times_ms: Int64Array,
    offset_ms: int,
    queryable: Queryable,
    options: GroupOptions,
) -> Iterator[Part]:
    """Evaluate all of a rule's expressions at every time; it fails where any of them does."""
    found = evaluate_parts(rule.expression, times_ms, offset_ms, queryable, options)
    if not isinstance(rule, AlertingRule) or rule.resolve is None:
        yield from found
        return
    for part in found:
        if part.rows is None:
            yield part
            continue
        done = 0
        for kept in evaluate_parts(rule.resolve, part.times_ms, offset_ms, queryable, options):
            steps = slice(done, done + len(kept.times_ms))
            done = steps.stop
            if kept.rows is None:
                yield kept
                continue
            warnings = (*part.warnings, *kept.warnings)
            yield Part(kept.times_ms, _cut(part.rows, steps), "", "", warnings, kept.rows)


def _cut(rows: Vector, steps: slice) -> Vector:
    return Vector(rows.labels, rows.values[:, steps], rows.present[:, steps])


def evaluate_parts(
    expression: Expression,
    times_ms: Int64Array,
    offset_ms: int,
    queryable: Queryable,
    options: GroupOptions,
) -> Iterator[Part]:
    """Evaluate at every time; where that fails, halve until the failing times stand alone.

    A failure belongs to one time: an instant query before and after it would have succeeded.
    A fault of ours is such a failure too: it costs the rule that time and nothing else.
    """
    if not len(times_ms):
        return
    axis = axis_of(times_ms, offset_ms)
    try:
        result = _evaluate(expression, axis, queryable, options)
    except EvaluationError as error:
        if len(times_ms) == 1:
            yield Part(times_ms, None, str(error), _place(expression, error.span))
            return
        middle = len(times_ms) // 2
        yield from evaluate_parts(expression, times_ms[:middle], offset_ms, queryable, options)
        yield from evaluate_parts(expression, times_ms[middle:], offset_ms, queryable, options)
        return
    value = result.value
    if isinstance(value, Scalar):
        shape = (1, len(times_ms))
        value = Vector((Labels(),), value.values.reshape(shape), np.ones(shape, dtype=np.bool_))
    if isinstance(value, Vector):
        yield Part(times_ms, value, warnings=result.warnings)
        return
    for index in range(len(times_ms)):
        time = times_ms[index : index + 1]
        yield Part(time, None, "rule result is not a vector or scalar", _place(expression, None))


def axis_of(times_ms: Int64Array, offset_ms: int) -> Axis:
    """Where a rule's query runs for these evaluation times."""
    step_ms = int(times_ms[1] - times_ms[0]) if len(times_ms) > 1 else 0
    return Axis(times_ms - offset_ms, step_ms, rule=True)


def _evaluate(
    expression: Expression, axis: Axis, queryable: Queryable, options: GroupOptions
) -> Result:
    try:
        return options.evaluate(expression.tree, axis, queryable, options.engine)
    except StallwatchError:
        raise
    except Exception as error:
        LOG.debug("internal error in %s", expression.text, exc_info=True)
        raise EvaluationError(fault(error)) from error


def fault(error: Exception) -> str:
    """A fault of ours in one line, with where in our code it was raised."""
    where = ""
    for frame in traceback.extract_tb(error.__traceback__)[-1:]:
        where = f" ({'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno})"
    return f"internal error: {type(error).__name__}: {error}{where}"


def _place(expression: Expression, span: Span | None) -> str:
    """Where in the rule file a part of an expression is, or the expression itself."""
    start = expression.offsets[0 if span is None else span.start]
    line, column = expression.source.position(start)
    return f"{expression.source.name}:{line}:{column}"
