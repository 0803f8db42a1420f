"""Selectors: which sample, or which window of samples, each step sees.

Series that were sampled together share one array of timestamps; whatever depends on times only
(the newest sample before a step, a window's bounds) is then worked out once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from engine.promql.windows import Samples, Windows
from engine.series import stale_mask
from rules.promql.ast import VectorSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.promql.context import Context
    from engine.series import Float64Array, Int64Array, Series
    from rules.promql.ast import MatrixSelector


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """What an instant selector found. `sample_times_ms`: int64[S, T], where present."""

    frame: Frame
    sample_times_ms: Int64Array


def group_by_times(
    arrays: Iterable[tuple[Int64Array, Float64Array]],
) -> list[Samples]:
    """Series, as (timestamps, values), grouped by equal timestamps."""
    keys: dict[tuple[int, int], bytes] = {}
    # Held so that no address is reused while it stands for an array.
    held: list[Int64Array] = []
    groups: dict[bytes, tuple[Int64Array, list[int], list[Float64Array]]] = {}
    for row, (times, values) in enumerate(arrays):
        # Views of one array at one place need not be compared sample by sample.
        place = (times.__array_interface__["data"][0], times.size)
        key = keys.get(place)
        if key is None:
            key = keys[place] = times.tobytes()
            held.append(times)
        _, rows, columns = groups.setdefault(key, (times, [], []))
        rows.append(row)
        columns.append(values)
    return [
        Samples(np.array(rows, dtype=np.intp), times, np.stack(columns))
        for times, rows, columns in groups.values()
    ]


def instant(context: Context, selector: VectorSelector) -> Selected:
    """The newest sample of each series in (t - look-back, t], at each step.

    Left-open, as in Prometheus 3. A series whose newest sample is a staleness marker is absent.
    """
    lookback = context.options.lookback_ms
    at = context.reference_times(selector.at, selector.offset)
    series = _select(context, selector, at, lookback)
    shape = (len(series), context.steps)
    context.require(shape[0] * shape[1], selector.span)
    values = np.zeros(shape)
    present = np.zeros(shape, dtype=np.bool_)
    times = np.zeros(shape, dtype=np.int64)
    for group in group_by_times((one.timestamps_ms, one.values) for one in series):
        newest = np.searchsorted(group.timestamps_ms, at, side="right") - 1
        index = np.maximum(newest, 0)
        sampled = group.timestamps_ms[index]
        seen = (newest >= 0) & (sampled > at - lookback)
        # take() copies bits: the marker must not pass through arithmetic before it is tested.
        found = np.take(group.values, index, axis=1)
        alive = seen & ~stale_mask(found)
        values[group.rows] = np.where(alive, found, 0.0)
        present[group.rows] = alive
        times[group.rows] = sampled
    labels = tuple(one.labels for one in series)
    return Selected(Frame(labels, values, present, (False,) * len(labels)), times)


def windows(context: Context, matrix: MatrixSelector) -> Windows:
    """The samples of each series in (t - range, t], at each step, less staleness markers."""
    selector, range_ms = matrix.selector, matrix.range.milliseconds
    if selector.modifier is not None:
        raise EvaluationError(f"{selector.modifier} is not supported", matrix.span)
    end = context.reference_times(selector.at, selector.offset)
    series = _select(context, selector, end, range_ms)
    context.require(len(series) * context.steps, matrix.span)
    labels = tuple(one.labels for one in series)
    groups = group_by_times(_without_markers(one) for one in series)
    return Windows(labels, (False,) * len(labels), tuple(groups), context.times_ms, end, range_ms)


def series_of(context: Context, leaf: VectorSelector | MatrixSelector) -> Sequence[Series]:
    """The series that a selector reads at all of the context's times."""
    if isinstance(leaf, VectorSelector):
        selector, range_ms = leaf, context.options.lookback_ms
    else:
        selector, range_ms = leaf.selector, leaf.range.milliseconds
    return _select(
        context, selector, context.reference_times(selector.at, selector.offset), range_ms
    )


def _select(
    context: Context, selector: VectorSelector, at: Int64Array, range_ms: int
) -> Sequence[Series]:
    if not at.size:
        return []
    first, last = int(at.min()) - range_ms + 1, int(at.max())
    return context.queryable.select(selector.matchers, first, last)


def _without_markers(series: Series) -> tuple[Int64Array, Float64Array]:
    stale = stale_mask(series.values)
    if not stale.any():
        return series.timestamps_ms, series.values
    return series.timestamps_ms[~stale], series.values[~stale]
