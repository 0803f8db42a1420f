"""What a selector found: rows of series, in groups that share timestamps.

Whatever depends on times only (the newest sample before a step, a window's bounds) is worked out
once for a group, however many series it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.natives import unseen
from engine.promql.windows import Samples
from engine.series import Series, Table, stale_mask
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.labels import Labels
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Float64Array, Int64Array

    Columns: TypeAlias = Float64Array | list[Float64Array]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Series that share timestamps.

    `rows`: R row numbers, ascending. `columns`: each one's samples, float64[R, N] or R arrays.
    `series`: the series themselves where some have more than floats, else None.
    """

    rows: IndexArray
    timestamps_ms: Int64Array
    columns: Columns
    series: tuple[Series, ...] | None = None

    def between(self, start: int, stop: int) -> Group | None:
        """The rows start … stop - 1, counted from `start`; None if there are none."""
        low, high = np.searchsorted(self.rows, (start, stop)).tolist()
        if low == high:
            return None
        series = None if self.series is None else self.series[low:high]
        return Group(
            self.rows[low:high] - start, self.timestamps_ms, self.columns[low:high], series
        )

    def within(self, first_ms: int, last_ms: int) -> Group:
        """The samples with first <= t <= last."""
        low, high = np.searchsorted(self.timestamps_ms, (first_ms, last_ms + 1)).tolist()
        columns = self.columns
        if isinstance(columns, list):
            columns = [one[low:high] for one in columns]
        else:
            columns = columns[:, low:high]
        series = self.series
        if series is not None:
            series = tuple(one.picked(slice(low, high)) for one in series)
        return Group(self.rows, self.timestamps_ms[low:high], columns, series)

    def samples(self) -> Samples:
        """Values side by side, staleness markers included."""
        columns = self.columns
        if not isinstance(columns, list):
            values = columns
        else:
            values = columns[0][None] if len(columns) == 1 else np.stack(columns)
        return Samples(self.rows, self.timestamps_ms, values)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The series that a selector found. `owners`: the number of each row's group, [S].

    A series without a sample belongs to no group, and its owner means nothing.
    """

    labels: tuple[Labels, ...]
    groups: tuple[Group, ...]
    owners: IndexArray

    @classmethod
    def of(cls, found: Sequence[Series] | Table) -> Rows:
        """Grouped by timestamps."""
        if isinstance(found, Table):
            labels, groups = found.labels, _of_table(found)
        else:
            labels, groups = tuple(one.labels for one in found), _of_series(found)
        owners = np.zeros(len(labels), dtype=np.intp)
        for number, group in enumerate(groups):
            owners[group.rows] = number
        return cls(labels, tuple(groups), owners)

    @property
    def longest(self) -> int:
        """The most samples that one of the series has."""
        return max((group.timestamps_ms.size for group in self.groups), default=0)

    @property
    def nbytes(self) -> int:
        """About how much memory the samples take."""
        return sum(8 * (one.rows.size + 1) * one.timestamps_ms.size for one in self.groups)

    @classmethod
    def none(cls) -> Rows:
        """No series."""
        return cls((), (), np.empty(0, dtype=np.intp))

    def between(self, start: int, stop: int) -> Rows:
        """The rows start … stop - 1."""
        if start <= 0 and stop >= len(self.labels):
            return self
        if not self.groups:
            return Rows(self.labels[start:stop], (), self.owners[start:stop])
        owners = self.owners[start:stop]
        numbers, owners = np.unique(owners, return_inverse=True)
        parts = [self.groups[number].between(start, stop) for number in numbers.tolist()]
        found = tuple(part for part in parts if part is not None)
        return Rows(self.labels[start:stop], found, owners)

    def within(self, first_ms: int, last_ms: int) -> Rows:
        """The same series with their samples in first <= t <= last, be they none."""
        groups = tuple(group.within(first_ms, last_ms) for group in self.groups)
        return Rows(self.labels, groups, self.owners)

    def samples(self) -> list[Samples]:
        """All groups, staleness markers included."""
        return [group.samples() for group in self.groups]

    def without_markers(self) -> list[Samples]:
        """All groups, without staleness markers and native histograms."""
        found = []
        for group, one in zip(self.groups, self.samples(), strict=True):
            gone = stale_mask(one.values) if group.series is None else unseen(group, one.values)
            found += without(one, gone)
        return found


def _of_series(found: Sequence[Series]) -> list[Group]:
    times = EqualTimes()
    members: dict[tuple[int, bool], list[int]] = {}
    for row, one in enumerate(found):
        key = (times.number(one.timestamps_ms), one.histograms is None and one.starts_ms is None)
        rows = members.get(key)
        if rows is None:
            members[key] = [row]
        else:
            rows.append(row)
    return [
        Group(
            np.array(rows, dtype=np.intp),
            times.arrays[number],
            [found[row].values for row in rows],
            None if plain else tuple(found[row] for row in rows),
        )
        for (number, plain), rows in members.items()
    ]


def _of_table(table: Table) -> list[Group]:
    every = np.arange(len(table.labels), dtype=np.intp)
    if not every.size or not table.timestamps_ms.size:
        return []
    if table.present is None:
        return [Group(every, table.timestamps_ms, table.values)]
    whole = Samples(every, table.timestamps_ms, table.values)
    parts = without(whole, ~table.present)
    return [Group(part.rows, part.timestamps_ms, part.values) for part in parts]


def without(samples: Samples, missing: BoolArray) -> list[Samples]:
    """The samples that are not missing, bool[R, N]; rows that miss the same stay together."""
    holed = missing.any(axis=1)
    if not holed.any():
        return [samples]
    rows, times, values = samples.rows, samples.timestamps_ms, samples.values
    found = []
    if not holed.all():
        found.append(Samples(rows[~holed], times, values[~holed]))
    alike: dict[bytes, list[int]] = {}
    for place in np.flatnonzero(holed).tolist():
        alike.setdefault(missing[place].tobytes(), []).append(place)
    for places in alike.values():
        kept = ~missing[places[0]]
        if kept.any():
            found.append(Samples(rows[places], times[kept], values[places][:, kept]))
    return found


class EqualTimes:
    """Numbers for arrays of timestamps: equal arrays have one number, and one array stands for all.

    Views of one array at one place need not be compared sample by sample.
    """

    __slots__ = ("_alike", "_known", "arrays")

    def __init__(self) -> None:
        self.arrays: list[Int64Array] = []
        # Arrays that have a number stay alive here, so that no identity is used twice.
        self._known: dict[int, tuple[int, Int64Array]] = {}
        self._alike: dict[tuple[int, int, int], list[int]] = {}

    def number(self, times: Int64Array) -> int:
        """The number of an array."""
        known = self._known.get(id(times))
        if known is not None:
            return known[0]
        number = self._equal(times)
        self._known[id(times)] = (number, times)
        return number

    def _equal(self, times: Int64Array) -> int:
        ends = (int(times[0]), int(times[-1])) if times.size else (0, 0)
        candidates = self._alike.setdefault((times.size, *ends), [])
        for number in candidates:
            other = self.arrays[number]
            at_one_place = other.ctypes.data == times.ctypes.data and other.strides == times.strides
            if at_one_place or np.array_equal(other, times):
                return number
        candidates.append(len(self.arrays))
        self.arrays.append(times)
        return len(self.arrays) - 1
