"""What every step of an evaluation knows: the query, the times, the data, the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.errors import TOO_MANY_SAMPLES, EvaluationError
from engine.promql.frame import Frame
from engine.promql.naming import drop_names
from engine.promql.shared_times import SharedTimes
from engine.promql.value import Scalar, String
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.baselines.folds import Folds
    from engine.promql.annotations import Annotations
    from engine.promql.rows import Rows
    from engine.promql.sharing import Sharing
    from engine.series import Float64Array, Int64Array, Queryable
    from rules.promql.ast import At, Duration, Expr
    from rules.source import Source, Span

# What is worked on block by block may be this much larger than what is held at once. A day of
# 100,000 series every 10 s passes; a subquery by the second over days of them does not.
CELLS_PER_SAMPLE = 20

Partial: TypeAlias = Frame | Scalar | String


@dataclass(frozen=True, slots=True)
class Options:
    """How to evaluate.

    `lookback_ms`: how old an instant selector's sample may be. `default_step_ms`: the step of a
    subquery that names none (the global evaluation interval). `max_samples`: the most samples
    that one operation may hold at once. `source`: the text that annotations point into.
    `start_timestamps`: whether a sample's start timestamp tells of a counter's reset, and
    `start_timestamp()` of it (Prometheus' feature use-start-timestamps).
    `workers`: the most processes for one expression, this one and forks of it, and `fork_cells`:
    from how many cells of [series, step] on. `block_cells`: how many are worked on at a time. No
    result depends on them.
    `shared`: results of what several expressions have in common. `folds`: what functions with
    memory have learnt from the data; None: each evaluation learns by itself.
    """

    lookback_ms: int = 300_000
    default_step_ms: int = 10_000
    delayed_name_removal: bool = True
    max_samples: int = 50_000_000
    source: Source | None = None
    start_timestamps: bool = False
    workers: int = 1
    fork_cells: int = 1_000_000
    block_cells: int = 131_072
    shared: Sharing | None = None
    folds: Folds | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """One expression on one set of times.

    `times_ms`: int64[T], where the expression at hand is evaluated; inside a subquery these are
    its own steps, while `start_ms` and `end_ms` stay the query's. `dispatch` evaluates any
    expression as is best, `evaluate_node` its outermost node. `rows`: what the one selector of
    a row-wise expression is to see, where that is evaluated for some of its series. `times`: what
    has been worked out from times alone, for all blocks and all parts of the expression.
    `rule`: at each of these times no sample later than it is visible.
    """

    times_ms: Int64Array
    start_ms: int
    end_ms: int
    step_ms: int
    queryable: Queryable
    options: Options
    notes: Annotations
    dispatch: Callable[[Expr, Context], Partial]
    evaluate_node: Callable[[Expr, Context], Partial]
    rows: Rows | None = None
    times: SharedTimes = field(default_factory=SharedTimes)
    rule: bool = False

    @property
    def steps(self) -> int:
        """T."""
        return int(self.times_ms.size)

    def with_notes(self, notes: Annotations) -> Context:
        """The same query, annotated there."""
        return replace(self, notes=notes)

    def on(self, times_ms: Int64Array) -> Context:
        """The same query on other times, as a subquery evaluates it."""
        return replace(self, times_ms=times_ms, rule=False)

    def evaluate(self, expr: Expr) -> Partial:
        """Any expression that is no range vector."""
        return self.dispatch(expr, self)

    def frame(self, expr: Expr) -> Frame:
        """An expression that the parser has found to be an instant vector."""
        value = self.dispatch(expr, self)
        if not isinstance(value, Frame):
            raise EvaluationError("expected an instant vector here", expr.span)
        return value

    def scalar(self, expr: Expr) -> Float64Array:
        """An expression that the parser has found to be a scalar: float64[T]."""
        value = self.dispatch(expr, self)
        if not isinstance(value, Scalar):
            raise EvaluationError("expected a scalar here", expr.span)
        return value.values

    def string(self, expr: Expr) -> str:
        """An expression that the parser has found to be a string."""
        value = self.dispatch(expr, self)
        if not isinstance(value, String):
            raise EvaluationError("expected a string here", expr.span)
        return value.value

    def constant(self, value: float) -> Scalar:
        """The same number at every step."""
        return Scalar(np.full(self.steps, value))

    def drop_names(self, frame: Frame, span: Span | None = None) -> Frame:
        """Remove metric names, now or at the end, as the options say."""
        return drop_names(frame, delayed=self.options.delayed_name_removal, span=span)

    def reference_times(self, at: At | None, offset: Duration | None) -> Int64Array:
        """Where a selector looks, int64[T]: the step or `@`, less the offset."""
        anchors = {"start": self.start_ms, "end": self.end_ms}
        anchor = None if at is None else at.anchor
        fixed = anchors[anchor] if isinstance(anchor, str) else anchor
        return self.times.shifted(
            self.times_ms, fixed, 0 if offset is None else offset.milliseconds
        )

    def require_work(self, series: int, span: Span) -> None:
        """Refuse a selector whose cells, [series, step], are too many even one block at a time."""
        self.require(series * self.steps // CELLS_PER_SAMPLE, span)

    def require(self, samples: int, span: Span) -> None:
        """Refuse an operation before it allocates more than `max_samples`."""
        if samples > self.options.max_samples:
            raise EvaluationError(TOO_MANY_SAMPLES, span)
