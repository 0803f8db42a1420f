"""Sliding windows and the contract of the kernels that fold them.

S series that share N timestamps, T steps. Window j holds samples lo[j] … hi[j] - 1. A kernel
gets a `Block` and gives values[S, T] and present[S, T]; where present is False the value means
nothing. Kernels see a few series at a time so that their working set stays in cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.labels import Labels
    from engine.series import BoolArray, Float64Array, Int64Array

IndexArray: TypeAlias = npt.NDArray[np.intp]

# Cells of [series, step] per block: 64 KiB of float64, so that a kernel's half a dozen arrays stay
# in a core's own cache.
BLOCK_CELLS = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Series that share timestamps. `rows`: their row numbers; values: float64[len(rows), N]."""

    rows: IndexArray
    timestamps_ms: Int64Array
    values: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A range vector at each step.

    `times_ms`: int64[T], the steps; `end_ms`: int64[T], where each window ends (they differ by
    offset and `@`). A window is (end - range, end].
    """

    labels: tuple[Labels, ...]
    drops: tuple[bool, ...]
    groups: tuple[Samples, ...]
    times_ms: Int64Array
    end_ms: Int64Array
    range_ms: int

    def bounds(self, timestamps_ms: Int64Array) -> tuple[IndexArray, IndexArray]:
        """lo[T] and hi[T] for series with these timestamps."""
        lo = np.searchsorted(timestamps_ms, self.end_ms - self.range_ms, side="right")
        hi = np.searchsorted(timestamps_ms, self.end_ms, side="right")
        return lo, np.maximum(hi, lo)


@dataclass(frozen=True, slots=True)
class Run:
    """Columns start … stop - 1, in which `lo` grows by the same `stride` from each to the next.

    There a kernel's next sample of every window is a strided view, not a copy.
    """

    start: int
    stop: int
    stride: int

    @classmethod
    def of(cls, lo: IndexArray) -> Run:
        """The run around the middle of `lo`; the ends differ where data starts or stops."""
        steps = np.diff(lo)
        middle = steps.size // 2
        if not steps.size or steps[middle] < 1:
            return cls(0, 0, 1)
        breaks = np.flatnonzero(steps != steps[middle])
        after = int(np.searchsorted(breaks, middle))
        start = int(breaks[after - 1]) + 1 if after else 0
        stop = int(breaks[after]) + 1 if after < breaks.size else lo.size
        return cls(start, stop, int(steps[middle]))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What a kernel works on. `params`: float64[T] for each scalar argument."""

    timestamps_ms: Int64Array
    values: Float64Array
    lo: IndexArray
    hi: IndexArray
    times_ms: Int64Array
    end_ms: Int64Array
    range_ms: int
    run: Run
    params: tuple[Float64Array, ...] = ()

    @property
    def widths(self) -> IndexArray:
        """The number of samples in each window, [T]."""
        return self.hi - self.lo

    @property
    def shape(self) -> tuple[int, int]:
        """(S, T)."""
        return self.values.shape[0], self.lo.size

    def at(self, index: IndexArray | slice) -> Float64Array:
        """values[:, index], not to be written to; an index out of range gives some value."""
        if isinstance(index, slice):
            return self.values[:, index]
        if not self.timestamps_ms.size:
            return np.zeros((self.values.shape[0], index.size))
        return np.take(self.values, index, axis=1, mode="clip")

    def times_at(self, index: IndexArray | slice) -> Int64Array:
        """timestamps[index]; an index out of range gives some time."""
        if isinstance(index, slice):
            return self.timestamps_ms[index]
        if not self.timestamps_ms.size:
            return np.zeros(index.size, dtype=np.int64)
        return np.take(self.timestamps_ms, index, mode="clip")

    def where(self, mask: BoolArray) -> BoolArray:
        """A mask over steps, [T], as one over series and steps, [S, T]."""
        return np.broadcast_to(mask, self.shape)

    def columns(self, chunk: slice) -> Block:
        """The same series at some of the steps."""
        return Block(
            self.timestamps_ms,
            self.values,
            self.lo[chunk],
            self.hi[chunk],
            self.times_ms[chunk],
            self.end_ms[chunk],
            self.range_ms,
            Run.of(self.lo[chunk]),
            tuple(param[chunk] for param in self.params),
        )

    def walk(self, first: int = 0) -> Iterator[tuple[int, Columns, Columns]]:
        """The samples of all windows side by side: their number `first`, `first` + 1, and so on.

        Each item is (number, columns, index): the steps whose window has that sample, and where
        it is. Folding in this order adds each window's samples from oldest to newest, one at a
        time, exactly as a loop over the window would.
        """
        widths = self.widths
        most = int(widths.max(initial=0))
        for number in range(first, most):
            for columns in self._split(np.flatnonzero(widths > number)):
                if isinstance(columns, slice) and columns.stop <= self.run.stop:
                    begin = int(self.lo[columns.start]) + number
                    end = int(self.lo[columns.stop - 1]) + number + 1
                    yield number, columns, slice(begin, end, self.run.stride)
                else:
                    yield number, columns, self.lo[columns] + number

    def _split(self, columns: IndexArray) -> Iterator[Columns]:
        """Columns as up to three pieces: before, inside (a slice) and after the run.

        All columns are a slice in any case, so that kernels can work on them in place.
        """
        if columns.size == self.lo.size and not self.run.stop:
            yield slice(0, columns.size)
            return
        low, high = np.searchsorted(columns, (self.run.start, self.run.stop)).tolist()
        inside = columns[low:high]
        if not inside.size or inside[-1] - inside[0] + 1 != inside.size:
            yield columns
            return
        if low:
            yield columns[:low]
        yield slice(int(inside[0]), int(inside[-1]) + 1)
        if high < columns.size:
            yield columns[high:]


Columns: TypeAlias = "IndexArray | slice"
Folded: TypeAlias = "tuple[Float64Array, BoolArray]"
Kernel: TypeAlias = "Callable[[Block], Folded]"


def fold(
    windows: Windows, kernel: Kernel, params: tuple[Float64Array, ...] = ()
) -> tuple[Float64Array, BoolArray]:
    """Run a kernel over every window of every series: values[S, T], present[S, T]."""
    steps = windows.times_ms.size
    shape = (len(windows.labels), steps)
    values = np.zeros(shape)
    present = np.zeros(shape, dtype=np.bool_)
    height = max(1, BLOCK_CELLS // max(1, steps))
    for group in windows.groups:
        lo, hi = windows.bounds(group.timestamps_ms)
        run = Run.of(lo)
        for start in range(0, group.rows.size, height):
            rows = slice(start, start + height)
            block = Block(
                group.timestamps_ms,
                group.values[rows],
                lo,
                hi,
                windows.times_ms,
                windows.end_ms,
                windows.range_ms,
                run,
                params,
            )
            values[group.rows[rows]], present[group.rows[rows]] = kernel(block)
    return values, present
