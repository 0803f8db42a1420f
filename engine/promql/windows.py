"""Sliding windows and the contract of the kernels that fold them.

A kernel gets a `Block`, S series and T steps, and gives values[S, T] and present[S, T]; where
present is False the value means nothing. The series of a block share their timestamps, or each row
has its own; either way a kernel works on all of them at once, and on few enough for its working
set to stay in cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.bounds import NEVER, Bounds, Edges, IndexArray
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.labels import Labels
    from engine.promql.cuts import Layout
    from engine.promql.grid import Run
    from engine.promql.natives import NativeRow
    from engine.promql.started import StartedRow
    from engine.series import BoolArray, Float64Array, Int64Array

__all__ = [
    "Block",
    "Bounds",
    "BoundsCache",
    "Edges",
    "Folded",
    "IndexArray",
    "Kernel",
    "Samples",
    "Windows",
    "fold",
]

# Cells of [series, step] or [series, sample] per block: 512 KiB of float64.
BLOCK_CELLS = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Series that share timestamps. `rows`: their row numbers; values: float64[len(rows), N]."""

    rows: IndexArray
    timestamps_ms: Int64Array
    values: Float64Array


# Bounds that are held at once, each of them a dozen arrays as long as the axis.
MOST_HELD = 32


@dataclass(slots=True, eq=False)
class BoundsCache:
    """The bounds of windows over timestamps that series share, for one evaluation."""

    held: dict[tuple[object, ...], Bounds] = field(default_factory=dict)

    def bounds(self, timestamps_ms: Int64Array, edges: Edges) -> Bounds:
        """The bounds of these windows; worked out once for each array of times, if few are used."""
        address, _ = timestamps_ms.__array_interface__["data"]
        key = (address, timestamps_ms.size, timestamps_ms.strides, edges.key)
        found = self.held.get(key)
        if found is None:
            # Bounds hold the array, so that its address is not reused while it stands for it.
            found = edges.bounds(timestamps_ms)
            if len(self.held) >= MOST_HELD:
                del self.held[next(iter(self.held))]
            self.held[key] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A range vector at each step.

    `times_ms`: int64[T], the steps; `end_ms`: int64[T], where each window ends (they differ by
    offset and `@`). A window is (end - range, end]. `natives`: the rows that have histogram samples
    too; `groups` hold floats only. `started`: the rows whose samples say since when they count.
    """

    labels: tuple[Labels, ...]
    drops: tuple[bool, ...]
    groups: tuple[Samples, ...]
    times_ms: Int64Array
    end_ms: Int64Array
    range_ms: int
    cache: BoundsCache = field(default_factory=BoundsCache)
    natives: tuple[NativeRow, ...] = ()
    started: tuple[StartedRow, ...] = ()

    def bounds(self, timestamps_ms: Int64Array) -> tuple[IndexArray, IndexArray]:
        """lo[T] and hi[T] for series with these timestamps."""
        found = self.cache.bounds(timestamps_ms, Edges.of(self.end_ms, self.range_ms))
        return found.lo, found.hi

    def blocks(self, params: tuple[Float64Array, ...] = ()) -> Iterator[tuple[IndexArray, Block]]:
        """Row numbers and the block of them, until every row with a sample has had its turn."""
        edges = Edges.of(self.end_ms, self.range_ms)
        even: list[Samples] = []
        uneven: list[Samples] = []
        filled: dict[int, tuple[Run, ...]] = {}
        for group in self.groups:
            times = group.timestamps_ms
            if not group.values.size:
                continue
            if group.rows.size > 1:
                bounds = self.cache.bounds(times, edges)
                height = self._height(times.size)
                for start in range(0, group.rows.size, height):
                    rows = slice(start, start + height)
                    yield group.rows[rows], Block(bounds, group.values[rows], self.times_ms, params)
                continue
            runs = None if edges.frame is None else edges.frame.runs(times)
            if runs is None:
                uneven.append(group)
            else:
                even.append(group)
                filled[id(group)] = runs
        for single in (even, uneven):
            single.sort(key=lambda group: group.timestamps_ms.size)
            while single:
                longest = single[-1].timestamps_ms.size
                height = self._height(longest)
                # The longest first; what is much shorter is not filled up but has its turn later.
                batch = [one for one in single[-height:] if 2 * one.timestamps_ms.size >= longest]
                del single[-len(batch) :]
                known = tuple(filled[id(one)] for one in batch) if filled and single is even else ()
                yield _of_rows(batch, edges, known, self.times_ms, params)

    def _height(self, samples: int) -> int:
        return max(1, BLOCK_CELLS // max(1, self.times_ms.size, samples))


def _of_rows(
    batch: Sequence[Samples],
    edges: Edges,
    runs: tuple[tuple[Run, ...], ...],
    times_ms: Int64Array,
    params: tuple[Float64Array, ...],
) -> tuple[IndexArray, Block]:
    """A block of series with timestamps of their own, filled up to the longest.

    `runs`: how each of them fills slots, if they do.
    """
    rows = np.concatenate([one.rows for one in batch])
    sizes = np.array([one.timestamps_ms.size for one in batch], dtype=np.intp)
    shape = (len(batch), int(sizes.max()))
    if (sizes == shape[1]).all():
        times = np.concatenate([one.timestamps_ms for one in batch]).reshape(shape)
        values = np.concatenate([one.values[0] for one in batch]).reshape(shape)
        return rows, Block(edges.bounds_of_rows(times, None, runs), values, times_ms, params)
    padded_times, padded_values = np.full(shape, NEVER), np.zeros(shape)
    if len(batch) < shape[1]:
        for row, one in enumerate(batch):
            padded_times[row, : sizes[row]] = one.timestamps_ms
            padded_values[row, : sizes[row]] = one.values[0]
    else:
        filled = np.arange(shape[1]) < sizes[:, None]
        padded_times[filled] = np.concatenate([one.timestamps_ms for one in batch])
        padded_values[filled] = np.concatenate([one.values[0] for one in batch])
    bounds = edges.bounds_of_rows(padded_times, sizes, runs)
    return rows, Block(bounds, padded_values, times_ms, params)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What a kernel works on. `params`: float64[T] for each scalar argument.

    What depends on times only has a value per step, [T], if the series share their timestamps,
    and one per series and step, [S, T], if they do not. Either broadcasts.
    """

    bounds: Bounds
    values: Float64Array
    times_ms: Int64Array
    params: tuple[Float64Array, ...] = ()

    @property
    def end_ms(self) -> Int64Array:
        """Where each window ends, [T]."""
        return self.bounds.edges.end_ms

    @property
    def range_ms(self) -> int:
        """How long the windows are."""
        return self.bounds.edges.range_ms

    @property
    def widths(self) -> IndexArray:
        """The number of samples in each window."""
        return self.bounds.widths

    @property
    def shape(self) -> tuple[int, int]:
        """(S, T)."""
        return self.values.shape[0], self.times_ms.size

    def with_values(self, values: Float64Array) -> Block:
        """The same windows over other values, [S, N]."""
        return replace(self, values=values)

    @property
    def layout(self) -> Layout:
        """The windows cut in two."""
        return self.bounds.layout(self.values.shape[0])

    def oldest(self) -> Float64Array:
        """Each window's first value, [S, T]; some value for an empty one."""
        grid = self.bounds.grid
        if grid is not None:
            return grid.oldest(self.values)
        return self.pick(self.values, self.bounds.oldest)

    def newest(self) -> Float64Array:
        """Each window's last value, [S, T]; some value for an empty one."""
        grid = self.bounds.grid
        if grid is not None:
            return grid.newest(self.values)
        return self.pick(self.values, self.bounds.newest)

    def at(self, index: IndexArray) -> Float64Array:
        """The values of samples by number, as `lo` and `hi` count; out of range gives some."""
        return self.pick(self.values, self._place(index))

    def times_at(self, index: IndexArray) -> Int64Array:
        """The times of samples by number; out of range gives some."""
        return self.bounds.times_at(self._place(index))

    @property
    def lo(self) -> IndexArray:
        """The number of each window's first sample."""
        return self.bounds.lo

    @property
    def hi(self) -> IndexArray:
        """One more than the number of each window's last sample."""
        return self.bounds.hi

    def _place(self, index: IndexArray) -> IndexArray:
        inside = np.clip(index, 0, self.values.shape[1] - 1)
        return inside if self.bounds.shared else self.bounds.place(inside)

    def pick(self, values: Float64Array, place: IndexArray) -> Float64Array:
        """What is known per sample, [S, N], at `bounds.oldest` or `newest`: [S, T]."""
        if place.ndim == 1:
            return np.take(values, place, axis=1)
        return np.take(values, place)

    def where(self, mask: BoolArray) -> BoolArray:
        """What is known per step or per series and step, as [S, T]."""
        return np.broadcast_to(mask, self.shape)

    @property
    def filled(self) -> BoolArray:
        """Which windows hold any sample, [S, T]."""
        return self.where(self.bounds.filled)

    @property
    def several(self) -> BoolArray:
        """Which windows hold two samples or more, [S, T]."""
        return self.where(self.bounds.several)

    def walk(self, first: int = 0) -> Iterator[tuple[int, IndexArray, BoolArray]]:
        """The samples of all windows side by side: their number `first`, `first` + 1, and so on.

        Each item is (number, index, exists): where that sample is, for `at` and `times_at`, and
        which windows have it. Folding in this order meets each window's samples from oldest to
        newest, one at a time, exactly as a loop over the window would.
        """
        for number in range(first, self.bounds.most):
            yield number, self.lo + number, self.widths > number


Folded: TypeAlias = "tuple[Float64Array, BoolArray]"
Kernel: TypeAlias = "Callable[[Block], Folded]"


def fold(
    windows: Windows, kernel: Kernel, params: tuple[Float64Array, ...] = ()
) -> tuple[Float64Array, BoolArray]:
    """Run a kernel over every window of every series: values[S, T], present[S, T]."""
    shape = (len(windows.labels), windows.times_ms.size)
    values = np.zeros(shape)
    present = np.zeros(shape, dtype=np.bool_)
    for rows, block in windows.blocks(params):
        values[rows], present[rows] = kernel(block)
    return values, present
