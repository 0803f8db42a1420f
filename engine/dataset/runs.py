"""Runs of rows, each of one series, become series: what `Assembly` is made of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.labels import Labels
from engine.series import Series
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import BoolArray, Int64Array

_RADIX = 1 << 16
Order: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two samples of a series at one time with different values; `row` is the later one's."""

    labels: Labels
    time_ms: int
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows as they were added: runs of one series each, those between two edges.

    `numbers`: of each run's series, below 0 for what nobody asked for. `rows`: where they were
    read, None if they follow `first_row`.
    """

    samples: Series
    numbers: Int64Array
    edges: Int64Array
    first_row: int
    rows: Order | None = None

    def row_numbers(self, low: int, high: int) -> Order:
        """Where the rows low <= row < high were read."""
        if self.rows is None:
            return np.arange(self.first_row + low, self.first_row + high)
        return self.rows[low:high]

    def falling(self) -> BoolArray:
        """Of each run, whether its times are not strictly increasing."""
        times_ms = self.samples.timestamps_ms
        falls = times_ms[1:] <= times_ms[:-1]
        falls[self.edges[1:-1] - 1] = False  # from one run to the next
        found = np.zeros(self.numbers.size, dtype=np.bool_)
        if falls.any():
            found[np.searchsorted(self.edges, np.flatnonzero(falls), side="right") - 1] = True
        return found


class Sharing:
    """Arrays of timestamps, equal ones as one and the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], list[Int64Array]] = {}

    def shared(self, times_ms: Int64Array, first_ms: int, sum_ms: int) -> Int64Array:
        """The array that stands for these times, given the first of them and their sum."""
        alike = self._known.setdefault((times_ms.size, first_ms, sum_ms), [])
        for other in alike:
            if other is times_ms or np.array_equal(other, times_ms):
                return other
        if times_ms.base is not None:
            # A view would keep alive what it was cut from, shared times among it.
            times_ms = times_ms.copy()
        alike.append(times_ms)
        return times_ms


@dataclass(frozen=True, slots=True)
class Clash:
    """Samples of a series at times that it has already: copies, others, and the first of those."""

    repeated: int
    conflicting: int
    conflict: Conflict | None


def rows_by_series(numbers: Int64Array, count: int) -> Order:
    """Rows by series number, those of one series as they came: a radix sort by 16 bits."""
    order = np.argsort((numbers % _RADIX).astype(np.uint16), kind="stable")
    if count > _RADIX:
        high = (numbers // _RADIX).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _settled(labels: Labels, rows_of: Sequence[Order], whole: Series) -> tuple[Series, Clash]:
    """The samples in the order of time, the first of each time, and what was left out."""
    order = np.argsort(whole.timestamps_ms, kind="stable")  # runs are in the order of their rows
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
        rows = np.concatenate(rows_of)[order]
        at = int(np.flatnonzero(differs)[np.argmin(rows[1:][differs])]) + 1
        conflict = Conflict(labels, int(times_ms[at]), int(rows[at]))
    conflicting = int(differs.sum())
    clash = Clash(int(same.sum()) - conflicting, conflicting, conflict)
    return whole.picked(np.concatenate([[True], ~same])), clash


class Pieces:
    """All runs of all blocks by series number, those of one series as they were added."""

    def __init__(self, blocks: list[Block], count: int) -> None:
        self._blocks = [*blocks]
        numbers = _joined([block.numbers for block in blocks])
        order = np.argsort(numbers, kind="stable")
        order = order[np.searchsorted(numbers[order], 0) :]
        numbers = numbers[order]
        starts = [block.edges[:-1] for block in blocks]
        lasts = [block.edges[1:] - 1 for block in blocks]
        times = [block.samples.timestamps_ms for block in blocks]
        first_ms = _joined([own[at] for own, at in zip(times, starts, strict=True)])[order]
        last_ms = _joined([own[at] for own, at in zip(times, lasts, strict=True)])[order]
        sums = _joined([np.add.reduceat(own, at) for own, at in zip(times, starts, strict=True)])
        wrong = _joined([block.falling() for block in blocks]).astype(np.bool_)[order]
        wrong[1:] |= (first_ms[1:] <= last_ms[:-1]) & (numbers[1:] == numbers[:-1])
        which = np.repeat(np.arange(len(blocks)), [block.numbers.size for block in blocks])
        self._left = Counter(which[order].tolist())
        self._runs = list(
            zip(
                which[order].tolist(),
                _joined(starts)[order].tolist(),
                (_joined(lasts)[order] + 1).tolist(),
                strict=True,
            )
        )
        lows = np.searchsorted(numbers, np.arange(count))
        highs = np.searchsorted(numbers, np.arange(count), side="right")
        self._edges = list(zip(lows.tolist(), highs.tolist(), strict=True))
        self.counts = (highs - lows).tolist()
        self._settles = np.zeros(count, dtype=np.bool_)
        self._settles[numbers[wrong]] = True
        self._first_ms = first_ms.tolist()
        # They may wrap around, and their differences with them.
        until = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sums[order])])
        self._sums = (until[highs] - until[lows]).tolist()

    def whole(self, labels: Labels, number: int, sharing: Sharing) -> tuple[Series, Clash | None]:
        """A series that has runs; they are given up."""
        low, high = self._edges[number]
        runs = self._runs[low:high]
        parts = [self._blocks[block].samples.picked(slice(*ends)) for block, *ends in runs]
        whole = parts[0] if len(parts) == 1 else Series.joined(parts)
        clash = None
        first_ms, sum_ms = self._first_ms[low], self._sums[number]
        if self._settles[number]:
            rows = [self._blocks[block].row_numbers(*ends) for block, *ends in runs]
            whole, clash = _settled(labels, rows, whole)
            times_ms = whole.timestamps_ms
            first_ms, sum_ms = int(times_ms[0]), int(times_ms.sum())
        for block, _, _ in runs:
            self._left[block] -= 1
            if not self._left[block]:
                self._blocks[block] = _GIVEN_UP
        times_ms = sharing.shared(whole.timestamps_ms, first_ms, sum_ms)
        return whole.renewed(labels, times_ms), clash


def _joined(arrays: Sequence[Any]) -> Any:
    """All of the arrays, which may be none."""
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)


def gathered(blocks: Sequence[Block], count: int) -> Block:
    """One block whose runs are whole series, their rows as they were added."""
    sizes = np.concatenate([np.diff(block.edges) for block in blocks])
    numbers = np.repeat(np.concatenate([block.numbers for block in blocks]), sizes)
    order = rows_by_series(numbers, count)
    numbers = numbers[order]
    rows = np.concatenate([block.row_numbers(0, block.samples.values.size) for block in blocks])
    edges = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, [numbers.size]])
    samples = Series.joined([block.samples for block in blocks], order)
    return Block(samples, numbers[edges[:-1]], edges, 0, rows[order])


_NONE: Int64Array = np.empty(0, dtype=np.int64)
_GIVEN_UP = Block(Series(Labels(), _NONE, np.empty(0)), _NONE, _NONE, 0)
