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

# Cells of [series, step] per block: 256 KiB of float64, which leaves room for a few temporaries.
BLOCK_CELLS = 32_768


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
    params: tuple[Float64Array, ...] = ()

    @property
    def widths(self) -> IndexArray:
        """The number of samples in each window, [T]."""
        return self.hi - self.lo

    @property
    def shape(self) -> tuple[int, int]:
        """(S, T)."""
        return self.values.shape[0], self.lo.size

    def at(self, index: IndexArray) -> Float64Array:
        """values[:, index]; an index out of range gives some value."""
        if not self.timestamps_ms.size:
            return np.zeros((self.values.shape[0], index.size))
        return np.take(self.values, index, axis=1, mode="clip")

    def times_at(self, index: IndexArray) -> Int64Array:
        """timestamps[index]; an index out of range gives some time."""
        if not self.timestamps_ms.size:
            return np.zeros(index.size, dtype=np.int64)
        return np.take(self.timestamps_ms, index, mode="clip")

    def where(self, mask: BoolArray) -> BoolArray:
        """A mask over steps, [T], as one over series and steps, [S, T]."""
        return np.broadcast_to(mask, self.shape)

    def walk(self, first: int = 0) -> Iterator[tuple[IndexArray | slice, IndexArray]]:
        """The samples of all windows side by side: their number `first`, `first` + 1, and so on.

        Each item is (columns, index): the steps whose window has a further sample, and where it
        is. Folding in this order adds each window's samples from oldest to newest, one at a
        time, exactly as a loop over the window would.
        """
        widths = self.widths
        least, most = (int(widths.min()), int(widths.max())) if widths.size else (0, 0)
        for number in range(first, most):
            if number < least:
                yield slice(None), self.lo + number
            else:
                columns = np.flatnonzero(widths > number)
                yield columns, self.lo[columns] + number


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
                params,
            )
            values[group.rows[rows]], present[group.rows[rows]] = kernel(block)
    return values, present
