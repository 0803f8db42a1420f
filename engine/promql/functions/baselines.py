"""anomaly_score: how unlike its own past each element is, by a model that follows it.

The model is fed on a clock of its own, whatever the steps of who asks (docs/semantics.md, 36 to
42): each raw sample of a plain selector; of any other argument its value on a grid of times since
1970, evaluated there as in a subquery.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from engine.baselines.folds import PIECE_MS, Folds
from engine.baselines.identity import canonical
from engine.baselines.points import LATE_MS, Points
from engine.promql import sampled
from engine.promql.errors import EvaluationError
from engine.series import Table, Tabular, stale_mask
from rules.promql import reach
from rules.promql.ast import VectorSelector
from rules.promql.sampled import needs_samples
from rules.promql.walk import selectors, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.promql.context import Context, Partial
    from engine.promql.frame import Frame
    from engine.series import Int64Array
    from rules.promql.ast import Call, Expr

_EVER = -(1 << 62)


def anomaly_score(context: Context, call: Call) -> Partial:
    """The score of each element's last point, 0 to 1; absent while its model is not warm."""
    folds, argument = context.options.folds or Folds(), call.args[0]
    selector = unwrapped(argument)
    clock: _Samples | _Grid
    if isinstance(selector, VectorSelector):
        clock = _Samples(context, argument, selector)
    else:
        clock = _Grid(context, argument, folds.settings.resolution_ms)
    asked, at = clock.asked, clock.at_ms
    if not at.size:
        return context.drop_names(asked, call.span)
    keys = tuple(zip(asked.labels, asked.drops, strict=True))
    text, workers = canonical(argument), context.options.workers
    with folds.followed(text, clock, int(at.min()), int(at.max()), workers) as fold:
        scores = fold.scores(keys, at)
    scored = asked.with_values(scores, asked.present & ~np.isnan(scores))
    return context.drop_names(scored, call.span)


class _Samples:
    """The clock of a plain selector: its samples, less staleness markers and histograms."""

    def __init__(self, context: Context, argument: Expr, selector: VectorSelector) -> None:
        self._context, self._selector = context, selector
        self.asked = context.frame(argument).without_histograms()
        self.at_ms = context.reference_times(None, selector.offset)

    def first_ms(self, until_ms: int) -> int | None:
        """See `engine.baselines.folds.Clock`."""
        return _first_ms(self._context, self._selector, until_ms)

    def stretches(self, after_ms: int, until_ms: int) -> list[tuple[int, int]]:
        """See `engine.baselines.folds.Clock`."""
        if until_ms - after_ms <= PIECE_MS:
            return [(after_ms, until_ms)]
        span, queryable = (after_ms, until_ms), self._context.queryable
        return sampled.stretches(queryable, (self._selector,), span, 0, PIECE_MS)

    def points(self, after_ms: int, until_ms: int) -> Iterator[Points]:
        """See `engine.baselines.folds.Clock`."""
        first_ms = after_ms - LATE_MS + 1
        queryable, matchers = self._context.queryable, self._selector.matchers
        table = None
        if isinstance(queryable, Tabular):
            table = queryable.table(matchers, first_ms, until_ms)
        if table is not None:
            yield from _points_of(table)
            return
        for series in queryable.select(matchers, first_ms, until_ms):
            times, values = series.timestamps_ms, series.values
            left_out = stale_mask(values)
            histograms = series.histogram_mask
            if histograms is not None:
                left_out |= histograms
            if left_out.any():
                times, values = times[~left_out], values[~left_out]
            yield Points((series.labels, False), times, values)


def _points_of(table: Table) -> Iterator[Points]:
    """The same of series that were sampled together."""
    times, values = table.timestamps_ms, table.values
    here = ~stale_mask(values)
    if table.present is not None:
        here &= table.present
    complete: list[bool] = np.logical_and.reduce(here, axis=1).tolist()
    for row, labels in enumerate(table.labels):
        if complete[row]:
            yield Points((labels, False), times, values[row])
        else:
            yield Points((labels, False), times[here[row]], values[row, here[row]])


class _Grid:
    """The clock of any other argument: multiples of the resolution where it has a value."""

    def __init__(self, context: Context, argument: Expr, resolution_ms: int) -> None:
        self._context, self._argument = context, argument
        self._resolution_ms = resolution_ms
        self.at_ms = context.times_ms

    @cached_property
    def asked(self) -> Frame:
        """The argument where it is asked for."""
        return self._on(self._context)

    def first_ms(self, until_ms: int) -> int | None:
        """See `engine.baselines.folds.Clock`."""
        firsts = [
            first
            for selector in selectors(self._argument)
            if (first := _first_ms(self._context, selector, until_ms)) is not None
        ]
        return min(firsts, default=None)

    def stretches(self, after_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
        """See `engine.baselines.folds.Clock`.

        Raises EvaluationError where the argument has more values without samples than one query
        may hold.
        """
        if until_ms - after_ms <= PIECE_MS or self._is_asked(after_ms, until_ms):
            yield after_ms, until_ms
            return
        for start_ms, end_ms in self._sampled(after_ms, until_ms):
            for piece_ms in range(start_ms, end_ms, PIECE_MS):
                yield piece_ms, min(piece_ms + PIECE_MS, end_ms)

    def _sampled(self, after_ms: int, until_ms: int) -> list[tuple[int, int]]:
        context, argument = self._context, self._argument
        if needs_samples(argument):
            lookback_ms = context.options.lookback_ms
            # A range that is anchored looks back once more.
            reach_ms = reach.reach_ms(argument, lookback_ms) + lookback_ms
            span, read = (after_ms, until_ms), selectors(argument)
            return sampled.stretches(context.queryable, read, span, reach_ms, PIECE_MS)
        points = self._number(after_ms, until_ms)
        if points > context.options.max_samples:
            raise EvaluationError(
                f"anomaly_score would learn from {points:,} points, one every "
                f"{self._resolution_ms / 1000:g}s, since its argument has values where there are "
                f"no samples: at most {context.options.max_samples:,}. Let it read samples only, "
                "without absent(), vector() and the like, or give it data of a shorter time",
                argument.span,
            )
        return [(after_ms, until_ms)]

    def _number(self, after_ms: int, until_ms: int) -> int:
        """How many times of the grid there are."""
        return until_ms // self._resolution_ms - after_ms // self._resolution_ms

    def _is_asked(self, after_ms: int, until_ms: int) -> bool:
        """Whether the grid has just the times at which the score is asked for."""
        asked = self._context.times_ms
        if self._number(after_ms, until_ms) != asked.size:
            return False
        return np.array_equal(self._times(after_ms, until_ms), asked)

    def _times(self, after_ms: int, until_ms: int) -> Int64Array:
        step = self._resolution_ms
        return np.arange((after_ms // step + 1) * step, until_ms + 1, step, dtype=np.int64)

    def points(self, after_ms: int, until_ms: int) -> Iterator[Points]:
        """See `engine.baselines.folds.Clock`."""
        times = self._times(after_ms, until_ms)
        if not times.size:
            return
        same = np.array_equal(times, self._context.times_ms)
        frame = self.asked if same else self._on(self._context.on(times))
        complete: list[bool] = np.logical_and.reduce(frame.present, axis=1).tolist()
        for row, key in enumerate(zip(frame.labels, frame.drops, strict=True)):
            values = frame.values[row]
            if complete[row]:
                yield Points(key, times, values)
            elif (here := frame.present[row]).any():
                yield Points(key, times[here], values[here])

    def _on(self, context: Context) -> Frame:
        frame = context.frame(self._argument)
        return frame.merged(self._argument.span).without_histograms()


def _first_ms(context: Context, selector: VectorSelector, until_ms: int) -> int | None:
    found = context.queryable.select(selector.matchers, _EVER, until_ms)
    return min((int(series.timestamps_ms[0]) for series in found), default=None)
