"""Counters whose samples say since when they count (start timestamps).

A sample that began to count after the one before it tells of a reset, whatever the values are, and
the first sample of a window whose start lies in the window stands for a rise from 0 at that time.
Source: promql/functions.go, extrapolatedRate and isStartTimestampReset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.rows import Rows
    from engine.promql.windows import Windows
    from engine.series import BoolArray, Float64Array, Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class StartedRow:
    """The floats of a row of a range vector. `starts_ms`: 0 where unknown."""

    row: int
    labels: Labels
    times_ms: Int64Array
    values: Float64Array
    starts_ms: Int64Array

    @property
    def resets(self) -> BoolArray:
        """Which samples follow a reset, by value or by start timestamp."""
        found = np.zeros(self.values.size, dtype=np.bool_)
        found[1:] = self.values[1:] < self.values[:-1]
        return found | resets_by_start(self.times_ms, self.starts_ms)

    @property
    def overlaps(self) -> BoolArray:
        """Which samples began to count before the one before them was taken, and not with it."""
        now, before = self.starts_ms[1:], self.starts_ms[:-1]
        found = np.zeros(self.values.size, dtype=np.bool_)
        found[1:] = (now != 0) & (now < self.times_ms[:-1]) & (now != before)
        return found


def resets_by_start(times_ms: Int64Array, starts_ms: Int64Array) -> BoolArray:
    """Which samples began to count after the one before them was taken.

    A start at that very time is a delta's, unless the one before does not know its own start (0, or
    its own time as OpenTelemetry writes it).
    """
    now, before = starts_ms[1:], starts_ms[:-1]
    found = np.zeros(times_ms.size, dtype=np.bool_)
    valid = (now != 0) & (now < times_ms[1:])
    delta = (now == times_ms[:-1]) & (before != 0) & (before < times_ms[:-1])
    found[1:] = valid & ((now > times_ms[:-1]) | delta)
    return found


def started_rows(rows: Rows) -> tuple[StartedRow, ...]:
    """The rows of a selector that have start timestamps."""
    from engine.promql.natives import unseen

    found = []
    for group in rows.groups:
        if group.series is None:
            continue
        gone = unseen(group, group.samples().values)
        for place, (row, one) in enumerate(zip(group.rows.tolist(), group.series, strict=True)):
            kept = one.picked(~gone[place])
            if kept.starts_ms is not None and kept.starts_ms.any():
                found.append(
                    StartedRow(row, one.labels, kept.timestamps_ms, kept.values, kept.starts_ms)
                )
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One window of a row: samples lo … hi - 1 of (start, end]."""

    row: StartedRow
    resets: BoolArray
    lo: int
    hi: int
    start_ms: int
    end_ms: int


def spans(windows: Windows, row: StartedRow) -> list[Span]:
    """All windows of a row, [T]."""
    lo, hi = windows.bounds(row.times_ms)
    ends, resets = windows.end_ms.tolist(), row.resets
    return [
        Span(row, resets, low, high, end - windows.range_ms, end)
        for low, high, end in zip(lo.tolist(), hi.tolist(), ends, strict=True)
    ]


def increase(window: Span) -> float | None:
    """The rise over the window, extrapolated to its edges where no start timestamp tells better."""
    row, lo, last = window.row, window.lo, window.hi - 1
    if last < lo:
        return None
    first_ms, last_ms = int(row.times_ms[lo]), int(row.times_ms[last])
    values = row.values
    risen = float(values[last] - values[lo])
    for at in range(lo + 1, last + 1):
        if window.resets[at]:
            risen += float(values[at - 1])
    spacing = (last_ms - first_ms) / 1000 / (last - lo) if last > lo else 0.0
    sampled, before = (last_ms - first_ms) / 1000, (first_ms - window.start_ms) / 1000
    after = (window.end_ms - last_ms) / 1000
    began = int(row.starts_ms[lo])
    if began != 0 and window.start_ms < began < first_ms:
        before, sampled = 0.0, (last_ms - began) / 1000
        risen += float(values[lo])
    elif last == lo:
        return None
    else:
        if before >= spacing * 1.1:
            before = spacing / 2
        if risen > 0 and values[lo] >= 0:
            before = min(before, sampled * (float(values[lo]) / risen))
    if after >= spacing * 1.1:
        after = spacing / 2
    return risen * ((sampled + before + after) / sampled)


def rate(window: Span) -> float | None:
    """`increase` per second."""
    risen = increase(window)
    return None if risen is None else risen / ((window.end_ms - window.start_ms) / 1000)


def irate(window: Span) -> float | None:
    """The rise between the last two samples, per second."""
    row, last = window.row, window.hi - 1
    if last - 1 < window.lo:
        return None
    seconds = int(row.times_ms[last] - row.times_ms[last - 1]) / 1000
    risen = row.values[last] if window.resets[last] else row.values[last] - row.values[last - 1]
    return float(risen) / seconds


def resets(window: Span) -> float | None:
    """How many resets there are."""
    if window.hi <= window.lo:
        return None
    return float(window.resets[window.lo + 1 : window.hi].sum())


FUNCTIONS = {"increase": increase, "irate": irate, "rate": rate, "resets": resets}
# These tell of start timestamps that cannot be right.
CHECKED = ("increase", "rate")
