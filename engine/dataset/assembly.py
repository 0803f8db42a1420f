"""Samples in any order become series: sorted, de-duplicated, timestamps shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.labels import Labels
    from engine.series import Float64Array, Int64Array


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two samples of a series at one time with different values; `row` is the later one's."""

    labels: Labels
    time_ms: int
    row: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """The series, sorted by labels.

    Of several samples at one time the first is kept, as the live window keeps it. `repeated`
    counts exact copies that were left out, `conflicting` those with another value.
    """

    series: tuple[Series, ...]
    repeated: int
    conflicting: int
    conflict: Conflict | None

    def notices(self, place: Callable[[Conflict], str]) -> list[str]:
        """What was left out. `place` tells where a conflict is."""
        found = []
        if self.conflict is not None:
            labels, time_ms = self.conflict.labels, self.conflict.time_ms
            found.append(
                f"{place(self.conflict)}: {labels} has another value at a timestamp that it has "
                f"already ({time_ms}); the first is kept, {self.conflicting} in all left out"
            )
        if self.repeated:
            found.append(f"{self.repeated} rows that repeat a sample exactly are left out")
        return found


class Assembly:
    """Collects samples by series number; rows are counted from 0 in the order they are added."""

    def __init__(self) -> None:
        self._numbers: dict[Labels, int] = {}
        self._ids: list[Int64Array] = []
        self._times: list[Int64Array] = []
        self._values: list[Float64Array] = []

    def number(self, labels: Labels) -> int:
        """The number of a series, a new one if it is new."""
        return self._numbers.setdefault(labels, len(self._numbers))

    def add(self, numbers: Int64Array, times_ms: Int64Array, values: Float64Array) -> None:
        """Add rows: series number, time, value."""
        self._ids.append(numbers)
        self._times.append(times_ms)
        self._values.append(values)

    def add_series(self, labels: Labels, times_ms: Int64Array, values: Float64Array) -> None:
        """Add samples of one series."""
        self.add(np.full(times_ms.size, self.number(labels), dtype=np.int64), times_ms, values)

    def build(self) -> Assembled:
        """All rows as series."""
        if not self._ids:
            return Assembled((), 0, 0, None)
        ids = np.concatenate(self._ids)
        times = np.concatenate(self._times)
        values = np.concatenate(self._values)
        order = np.lexsort((times, ids))  # stable: equal keys stay in row order
        ids, times, values = ids[order], times[order], values[order]
        same = (ids[1:] == ids[:-1]) & (times[1:] == times[:-1])
        bits = values.view(np.uint64)
        # Against the first of its run, which is the one that is kept.
        starts = np.maximum.accumulate(np.where(same, 0, np.arange(1, ids.size)))
        differs = same & (bits[1:] != bits[starts])
        names = list(self._numbers)
        conflict = None
        if differs.any():
            # The first one in the file is what its author looks for first.
            rows = order[1:][differs]
            at = int(np.flatnonzero(differs)[np.argmin(rows)]) + 1
            conflict = Conflict(names[int(ids[at])], int(times[at]), int(order[at]))
        if same.any():
            keep = np.concatenate([[True], ~same])
            ids, times, values = ids[keep], times[keep], values[keep]
        bounds = np.searchsorted(ids, np.arange(len(names) + 1))
        series = _slices(names, bounds, times, values)
        conflicting = int(differs.sum())
        return Assembled(series, int(same.sum()) - conflicting, conflicting, conflict)


def _slices(
    names: list[Labels], bounds: Int64Array, times: Int64Array, values: Float64Array
) -> tuple[Series, ...]:
    shared: dict[bytes, Int64Array] = {}
    found = []
    for number in sorted(range(len(names)), key=lambda number: names[number].pairs):
        low, high = int(bounds[number]), int(bounds[number + 1])
        if high > low:
            own = times[low:high]
            found.append(
                Series(names[number], shared.setdefault(own.tobytes(), own), values[low:high])
            )
    return tuple(found)
