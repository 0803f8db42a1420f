"""Where in time there are samples, so that nobody goes step by step through years without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.series import Int64Array, Queryable
    from rules.promql.ast import VectorSelector


def stretches(
    queryable: Queryable,
    selectors: Iterable[VectorSelector],
    span_ms: tuple[int, int],
    reach_ms: int,
    apart_ms: int,
) -> list[tuple[int, int]]:
    """The stretches, after < time <= until, of a span in which a selector's samples can be seen.

    A sample is seen until `reach_ms` after its time. Stretches are more than `apart_ms` apart, and
    in order; there are at most as many as samples.
    """
    after_ms, until_ms = span_ms
    starts: list[Int64Array] = []
    ends: list[Int64Array] = []
    for selector in selectors:
        before = None
        for series in queryable.select(selector.matchers, after_ms + 1 - reach_ms, until_ms):
            times = series.timestamps_ms
            # Series that are sampled together share their times.
            if times is before or not times.size:
                continue
            before = times
            gaps = np.flatnonzero(np.diff(times) > reach_ms + apart_ms)
            starts.append(times[np.concatenate(([0], gaps + 1))])
            ends.append(times[np.concatenate((gaps, [-1]))] + reach_ms)
    if not starts:
        return []
    return _merged(np.concatenate(starts), np.concatenate(ends), span_ms, apart_ms)


def _merged(
    starts: Int64Array, ends: Int64Array, span_ms: tuple[int, int], apart_ms: int
) -> list[tuple[int, int]]:
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    gaps = np.flatnonzero(starts[1:] - ends[:-1] > apart_ms)
    first = starts[np.concatenate(([0], gaps + 1))] - 1
    last = ends[np.concatenate((gaps, [-1]))]
    after = np.maximum(first, span_ms[0]).tolist()
    until = np.minimum(last, span_ms[1]).tolist()
    return [(a, b) for a, b in zip(after, until, strict=True) if a < b]
