"""What an explanation asks of the data: an expression's elements, samples and last hour."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from engine.labels import METRIC_NAME, Labels
from engine.promql.engine import evaluate
from engine.promql.numbers import format_value
from engine.promql.value import Axis, Matrix, Scalar, Vector
from engine.series import Series, stale_mask
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from engine.baselines.fold import Fold
    from engine.baselines.folds import Folds
    from engine.promql.context import Options
    from engine.series import Queryable
    from rules.promql.ast import Call, Expr

Number: TypeAlias = "float | str"
Row: TypeAlias = "tuple[Labels, float]"
HOUR_MS = 3_600_000
LINE_STEP_MS = 15_000


def number(value: float) -> Number:
    """A value for JSON, which has no NaN and no infinity: those are strings."""
    return value if math.isfinite(value) else format_value(value)


def nameless(labels: Labels) -> Labels:
    """Labels as a function's result has them."""
    return labels.without(METRIC_NAME)


@dataclass(frozen=True, slots=True)
class Data:
    """`options`: how rules are evaluated. `folds`: what they have learnt, and is not moved."""

    queryable: Queryable
    options: Options
    folds: Folds

    def rows(self, expr: Expr, time_ms: int) -> list[Row]:
        """The elements of an instant vector, by labels; a scalar is one without labels."""
        value = self._evaluated(expr, Axis.instant(time_ms))
        if isinstance(value, Scalar):
            return [(Labels(), float(value.values[0]))]
        if not isinstance(value, Vector):
            return []
        found = zip(value.labels, value.values[:, 0], value.present[:, 0], strict=True)
        return sorted(((own, float(one)) for own, one, here in found if here), key=_labels)

    def samples(self, expr: Expr, time_ms: int) -> tuple[Series, ...]:
        """The samples of a range vector, staleness markers left out."""
        value = self._evaluated(expr, Axis.instant(time_ms))
        if not isinstance(value, Matrix):
            return ()
        return tuple(one.picked(~stale_mask(one.values)) for one in value.series)

    def lines(self, expr: Expr, end_ms: int) -> list[Series]:
        """The elements of an instant vector over the hour that ends at a time."""
        axis = Axis.span(end_ms - HOUR_MS, end_ms, LINE_STEP_MS, rule=True)
        value = self._evaluated(expr, axis)
        if not isinstance(value, Vector):
            return []
        return [
            Series(labels, axis.times_ms[here], values[here])
            for labels, values, here in zip(value.labels, value.values, value.present, strict=True)
            if here.any()
        ]

    def fold(self, call: Call, text: str, time_ms: int) -> Fold | None:
        """What a function with memory had learnt of its argument by a time, that point included."""
        apart = self.folds.apart(text, time_ms)
        options = replace(self.options, folds=apart, shared=None)
        evaluate(call, Axis.instant(time_ms), self.queryable, options)
        return apart.by_text.get(text)

    def _evaluated(self, expr: Expr, axis: Axis) -> object:
        options = replace(self.options, folds=self.folds.reading(), shared=None)
        return evaluate(expr, axis, self.queryable, options).value


def _labels(row: Row) -> Labels:
    return row[0]
