"""Samples in any order become series: sorted, de-duplicated, timestamps shared.

Data nearly always come in runs of one series in the order of time, and stay the arrays that were
read: only what is out of order is sorted, and only what is in pieces is copied.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.labels import Labels
from engine.series import Series
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.series import Float64Array, Int64Array, TextArray

# Shorter runs than this, on average, are gathered by a sort instead of one by one.
SHORT_RUN = 64
_RADIX = 1 << 16
Order: TypeAlias = npt.NDArray[np.intp]
_NO_LABELS = Labels()


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


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Some samples of a series. `rows`: where they were read, or where the first of them was."""

    samples: Series
    rows: int | Order

    def row_numbers(self) -> Order:
        if isinstance(self.rows, int):
            return np.arange(self.rows, self.rows + self.samples.values.size)
        return self.rows


class Sharing:
    """Arrays of timestamps, equal ones as one and the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], list[Int64Array]] = {}

    def shared(self, times_ms: Int64Array) -> Int64Array:
        """The array that stands for these times, which are not empty."""
        key = (times_ms.size, int(times_ms[0]), int(times_ms.sum()))
        alike = self._known.setdefault(key, [])
        for other in alike:
            if other is times_ms or np.array_equal(other, times_ms):
                return other
        if times_ms.base is not None:
            # A view would keep alive what it was cut from, shared times among it.
            times_ms = times_ms.copy()
        alike.append(times_ms)
        return times_ms


def rows_read(
    times_ms: Int64Array,
    values: Float64Array,
    histograms: TextArray | None = None,
    starts_ms: Int64Array | None = None,
) -> Series:
    """Samples that are yet to be told apart: in any order, of no series in particular."""
    return Series(_NO_LABELS, times_ms, values, histograms, starts_ms)


class Assembly:
    """Collects samples by series number; rows are counted from 0 in the order they are added."""

    def __init__(self) -> None:
        self._numbers: dict[Labels, int] = {}
        self._pieces: list[list[_Piece]] = []
        self._rows = 0

    def number(self, labels: Labels) -> int:
        """The number of a series, a new one if it is new."""
        found = self._numbers.setdefault(labels, len(self._numbers))
        if found == len(self._pieces):
            self._pieces.append([])
        return found

    def add(self, numbers: Int64Array, samples: Series) -> None:
        """Add rows: the number of each one's series, and what it holds (`rows_read`)."""
        first_row, size = self._rows, numbers.size
        if not size:
            return
        changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        if (changes.size + 1) * SHORT_RUN > size:
            order = _order(numbers, len(self._pieces))
            numbers, samples = numbers[order], samples.picked(order)
            changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
            rows: Order | None = order + first_row
        else:
            rows = None
        edges = [0, *changes.tolist(), size]
        self.add_runs(numbers[edges[:-1]].tolist(), edges, samples, rows)

    def add_runs(
        self,
        numbers: Sequence[int],
        edges: Sequence[int],
        samples: Series,
        rows: Order | None = None,
    ) -> None:
        """Add runs of rows, those between two edges of one series; `rows`: where they were read."""
        first_row = self._rows
        for number, (low, high) in zip(numbers, pairwise(edges), strict=True):
            where = first_row + low if rows is None else rows[low:high]
            self._pieces[number].append(_Piece(samples.picked(slice(low, high)), where))
        self._rows += edges[-1]

    def add_series(self, series: Series) -> None:
        """Add samples of one series."""
        if series.values.size:
            self._pieces[self.number(series.labels)].append(_Piece(series, self._rows))
            self._rows += series.values.size

    def skip(self, rows: int) -> None:
        """Rows that were left out, so that those after them keep their place."""
        self._rows += rows

    def build(self) -> Assembled:
        """All rows as series. To be called once: what was added is given up on the way."""
        sharing = Sharing()
        found: list[Series] = []
        clashes: list[_Clash] = []
        for labels, number in sorted(self._numbers.items(), key=lambda item: item[0].pairs):
            pieces, self._pieces[number] = self._pieces[number], []
            if not pieces:
                continue
            whole = pieces[0].samples
            if len(pieces) > 1:
                whole = Series.joined([piece.samples for piece in pieces])
            times_ms = whole.timestamps_ms
            if not (times_ms[1:] > times_ms[:-1]).all():
                whole, clash = _settled(labels, pieces, whole)
                clashes.append(clash)
            found.append(whole.renewed(labels, sharing.shared(whole.timestamps_ms)))
        conflicts = [clash.conflict for clash in clashes if clash.conflict is not None]
        return Assembled(
            tuple(found),
            sum(clash.repeated for clash in clashes),
            sum(clash.conflicting for clash in clashes),
            # The first one in the file is what its author looks for first.
            min(conflicts, key=lambda conflict: conflict.row, default=None),
        )


@dataclass(frozen=True, slots=True)
class _Clash:
    repeated: int
    conflicting: int
    conflict: Conflict | None


def _order(numbers: Int64Array, count: int) -> Order:
    """Rows by series number, those of one series as they came: a radix sort by 16 bits."""
    order = np.argsort((numbers % _RADIX).astype(np.uint16), kind="stable")
    if count > _RADIX:
        high = (numbers // _RADIX).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _settled(labels: Labels, pieces: list[_Piece], whole: Series) -> tuple[Series, _Clash]:
    """The samples in the order of time, the first of each time, and what was left out."""
    order = np.argsort(whole.timestamps_ms, kind="stable")  # pieces are in the order of their rows
    whole = whole.picked(order)
    times_ms = whole.timestamps_ms
    same = times_ms[1:] == times_ms[:-1]
    # Against the first of its run, which is the one that is kept.
    firsts = np.maximum.accumulate(np.where(same, 0, np.arange(1, times_ms.size)))
    differs = np.zeros(same.size, dtype=np.bool_)
    for own in (whole.values.view(np.uint64), whole.histograms, whole.starts_ms):
        if own is not None:
            differs |= own[1:] != own[firsts]
    differs &= same
    conflict = None
    if differs.any():
        rows = np.concatenate([piece.row_numbers() for piece in pieces])[order]
        at = int(np.flatnonzero(differs)[np.argmin(rows[1:][differs])]) + 1
        conflict = Conflict(labels, int(times_ms[at]), int(rows[at]))
    conflicting = int(differs.sum())
    clash = _Clash(int(same.sum()) - conflicting, conflicting, conflict)
    return whole.picked(np.concatenate([[True], ~same])), clash
