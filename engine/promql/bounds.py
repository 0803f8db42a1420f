"""Which samples each window holds, and what else depends on times only.

Whatever is worked out here is shared: by all series with the same timestamps, by all blocks of
series, and by all functions of the same windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.promql.cuts import Cuts, Layout
from engine.promql.grid import Frame, Grid
from engine.promql.places import by_place

if TYPE_CHECKING:
    from engine.promql.grid import Run
    from engine.series import BoolArray, Float64Array, Int64Array

IndexArray: TypeAlias = npt.NDArray[np.intp]

# The time of a sample that only fills a shorter series up. Later than any window.
NEVER = 2**52

# Up to here, comparing every sample with every edge is quicker than counting in bins.
FEW_EDGES = 8


@dataclass(frozen=True, eq=False)
class Edges:
    """Windows (end - range, end]. `step_ms`: how far each end is from the next; 0: it varies."""

    end_ms: Int64Array
    range_ms: int
    step_ms: int

    @classmethod
    def of(cls, end_ms: Int64Array, range_ms: int) -> Edges:
        """The windows of this length that end at these times."""
        step = int(end_ms[1] - end_ms[0]) if end_ms.size > 1 else 0
        regular = step > 0 and bool((np.diff(end_ms) == step).all())
        return cls(end_ms, range_ms, step if regular else 0)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal windows."""
        if self.step_ms:
            return self.range_ms, self.step_ms, self.end_ms.size, int(self.end_ms[0])
        return self.range_ms, self.end_ms.tobytes()

    def bounds(self, timestamps_ms: Int64Array) -> Bounds:
        """The windows of series that share these timestamps, [N]."""
        runs = None if self.frame is None else self.frame.runs(timestamps_ms)
        grid = None if runs is None or self.frame is None else Grid(self.frame, (runs,), True)
        return Bounds(timestamps_ms, None, self, grid)

    def bounds_of_rows(
        self, rows_ms: Int64Array, sizes: IndexArray | None, runs: tuple[tuple[Run, ...], ...] = ()
    ) -> Bounds:
        """The windows of series with timestamps of their own, one row each, [S, N].

        Rows hold `sizes` samples and are filled up with NEVER. `runs`: how all of them fill slots.
        """
        grid = Grid(self.frame, runs, False) if runs and self.frame is not None else None
        return Bounds(rows_ms, sizes, self, grid)

    @cached_property
    def frame(self) -> Frame | None:
        """The slots of series that are sampled once a step."""
        return Frame.of(self)

    def span(self, timestamps_ms: Int64Array) -> tuple[IndexArray, IndexArray]:
        """The numbers of each window's first sample, and of the first one after it."""
        if timestamps_ms.ndim == 1:
            lo = np.searchsorted(timestamps_ms, self.end_ms - self.range_ms, side="right")
            return lo, np.searchsorted(timestamps_ms, self.end_ms, side="right")
        return self._of_rows(timestamps_ms)

    def _of_rows(self, rows: Int64Array) -> tuple[IndexArray, IndexArray]:
        """Lo and hi, each [S, T]. Both edges are a number of steps apart: one count serves both."""
        steps = self.end_ms.size
        if steps > FEW_EDGES and self.step_ms and not self.range_ms % self.step_ms:
            apart = self.range_ms // self.step_ms
            if apart <= steps:
                first = int(self.end_ms[0]) - self.range_ms
                found = _counted_in_bins(rows, first, self.step_ms, steps + apart)
                return found[:, :steps], found[:, apart:]
        return self._counted(rows, self.end_ms - self.range_ms), self._counted(rows, self.end_ms)

    def _counted(self, rows: Int64Array, edges: Int64Array) -> IndexArray:
        """How many samples of each row are at or before each edge, [S, T]."""
        if edges.size <= FEW_EDGES:
            found = np.empty((rows.shape[0], edges.size), dtype=np.intp)
            for column, edge in enumerate(edges.tolist()):
                np.sum(rows <= edge, axis=1, out=found[:, column])
            return found
        if self.step_ms:
            return _counted_in_bins(rows, int(edges[0]), self.step_ms, edges.size)
        return _cumulated(np.searchsorted(edges, rows, side="left"), edges.size)


def _counted_in_bins(rows: Int64Array, first: int, step: int, count: int) -> IndexArray:
    """How many samples are at or before first, first + step, …: [S, count]."""
    bins = rows - (first - step + 1)
    np.floor_divide(bins, step, out=bins)
    np.clip(bins, 0, count, out=bins)
    return _cumulated(bins, count)


def _cumulated(bins: IndexArray, count: int) -> IndexArray:
    """For each row, how many of its samples are in bins 0 … j, for each j below `count`."""
    height = bins.shape[0]
    bins += (np.arange(height) * (count + 1))[:, None]
    found = np.bincount(bins.ravel(), minlength=height * (count + 1)).reshape(height, count + 1)
    np.cumsum(found, axis=1, out=found)
    return found[:, :count]


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """How far, in seconds, a window's samples reach (promql/functions.go, extrapolatedRate).

    `sampled`: from the first to the last; `to_start` and `to_end`: how far that is stretched
    towards the window's edges.
    """

    sampled: Float64Array
    to_start: Float64Array
    to_end: Float64Array


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """How many samples a window has before its cut and beyond it.

    `split`: whether there is any before it; `number`: how many beyond it; `before` and `beyond`:
    how many, to divide by, at least 1; `both`: their product over their sum.
    """

    split: BoolArray
    number: Float64Array
    before: Float64Array
    beyond: Float64Array
    both: Float64Array
    counts: Float64Array

    @classmethod
    def of(cls, number: Float64Array, counts: Float64Array) -> Weights:
        """Of windows with so many samples beyond their cuts, and so many in all."""
        ahead = counts - number
        both = ahead * number
        both /= counts
        return cls(ahead > 0, number, np.maximum(ahead, 1.0), np.maximum(number, 1.0), both, counts)


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Samples in slots, as many for each step, so that each window is `width` slots.

    `hop`: how many slots a step has. `slots` and which of the samples are `inside` any window:
    [1, N] if timestamps are shared, else [S, N].
    """

    hop: int
    width: int
    slots: Int64Array
    inside: BoolArray


@dataclass(eq=False)
class Bounds:
    """Windows over series that share timestamps, or over rows with timestamps of their own.

    `timestamps_ms` is [N], and everything per window [T]; or it is [S, N], each row filled up from
    its size on, and everything per window [S, T]. Window j holds samples lo … hi - 1. What is
    worked out from there needs one sample at least.
    """

    timestamps_ms: Int64Array
    sizes: IndexArray | None
    edges: Edges
    grid: Grid | None = None
    _layouts: dict[int, Layout] = field(init=False, default_factory=dict)

    @cached_property
    def _span(self) -> tuple[IndexArray, IndexArray]:
        if self.grid is None:
            return self.edges.span(self.timestamps_ms)
        lo, hi = self.grid.lo, self.grid.hi
        return (lo[0], hi[0]) if self.shared else (lo, hi)

    @property
    def lo(self) -> IndexArray:
        """The number of each window's first sample."""
        return self._span[0]

    @property
    def hi(self) -> IndexArray:
        """One more than the number of each window's last sample."""
        return self._span[1]

    @property
    def shared(self) -> bool:
        """Whether all series have these timestamps."""
        return self.timestamps_ms.ndim == 1

    @cached_property
    def widths(self) -> IndexArray:
        """The number of samples in each window."""
        return self.hi - self.lo

    @cached_property
    def counts(self) -> Float64Array:
        """The same as a float."""
        return self.widths.astype(np.float64)

    @cached_property
    def filled(self) -> BoolArray:
        """Whether a window has any sample."""
        return self.widths > 0

    @cached_property
    def several(self) -> BoolArray:
        """Whether a window has two samples or more."""
        return self.widths > 1

    @cached_property
    def most(self) -> int:
        """The number of samples in the fullest window."""
        return int(self.widths.max(initial=0))

    @cached_property
    def cuts(self) -> Cuts:
        """Each window in two at the multiple of its length that lies in it."""
        return Cuts.of(self)

    def layout(self, rows: int) -> Layout:
        """The places for a block of so many rows."""
        # Kept here: cuts that held what holds them would outlive their last use.
        rows = rows if self.shared else 1
        found = self._layouts.get(rows)
        if found is None:
            found = self._layouts[rows] = Layout(self.cuts, rows)
        return found

    @cached_property
    def reach(self) -> Reach:
        """To a sample's own spacing at most, where the edge is farther than 1.1 of them."""
        # As floats, which hold every time exactly up to 2^53 ms.
        times = np.atleast_2d(self.timestamps_ms).astype(np.float64)
        end = self.edges.end_ms.astype(np.float64)
        if self.grid is not None:
            first, last = self.grid.oldest(times), self.grid.newest(times)
        else:
            first, last = np.take(times, self.oldest), np.take(times, self.newest)
        sampled = last - first
        sampled /= 1000
        to_start = np.subtract(first, end - self.edges.range_ms, out=first)
        to_start /= 1000
        to_end = np.subtract(end, last, out=last)
        to_end /= 1000
        sampled = np.atleast_2d(sampled)
        spacing = np.atleast_2d(self.counts - 1)
        np.divide(sampled, spacing, out=spacing)
        threshold = spacing * 1.1
        spacing /= 2
        for edge in (to_start, to_end):
            # Few windows begin or end in a gap.
            far = np.flatnonzero(edge >= threshold)
            edge.reshape(-1)[far] = spacing.reshape(-1)[far]
        shape = self.lo.shape
        return Reach(sampled.reshape(shape), to_start.reshape(shape), to_end.reshape(shape))

    @cached_property
    def pivots(self) -> tuple[IndexArray, IndexArray]:
        """Where each window's last sample before its cut and the first one beyond it are.

        Some sample where there is none.
        """
        cuts = self.cuts
        return np.take(cuts.last, self.oldest), np.take(cuts.first, self.newest)

    @cached_property
    def weights(self) -> Weights:
        """The numbers of samples on either side of each window's cut."""
        _, first = self.pivots
        after = self.newest - first
        after += 1
        after *= self.cuts.prefix > 0
        return Weights.of(after.astype(np.float64), self.counts)

    @cached_property
    def weights_by_place(self) -> Weights:
        """The same for samples in slots, as in engine/promql/places.py."""
        grid = self.grid
        if grid is None:
            raise TypeError("these samples are not in slots")
        frame, upto = grid.frame, grid.upto
        since = np.repeat(upto[:, : -1 : frame.width], frame.width, axis=1)
        number = upto[:, 1:] - since
        number[:, frame.width - 1 :: frame.width] = 0
        counts = np.zeros(number.shape, dtype=np.intp)
        np.subtract(
            upto[:, frame.width :], upto[:, : -frame.width], out=counts[:, frame.width - 1 :]
        )
        windows = slice(frame.parts, None)
        return Weights.of(
            by_place(frame, number)[..., windows], by_place(frame, counts)[..., windows]
        )

    @cached_property
    def bins(self) -> Bins | None:
        """Which step brings each sample into a window; None unless steps divide the windows."""
        edges, times = self.edges, np.atleast_2d(self.timestamps_ms)
        if not edges.step_ms or edges.range_ms % edges.step_ms:
            return None
        apart = edges.range_ms // edges.step_ms
        first = int(edges.end_ms[0]) - edges.range_ms
        bins = times - (first + 1)
        np.floor_divide(bins, edges.step_ms, out=bins)
        inside = (bins >= 0) & (bins < edges.end_ms.size - 1 + apart)
        breaks = np.ones(bins.shape, dtype=np.bool_)
        np.not_equal(bins[:, 1:], bins[:, :-1], out=breaks[:, 1:])
        starts = np.flatnonzero(breaks)
        extents = np.diff(starts, append=bins.size)
        most = int(extents[inside.ravel()[starts]].max(initial=1))
        if most > 1:
            bins *= most
            bins += (np.arange(bins.size) - np.repeat(starts, extents)).reshape(bins.shape)
        return Bins(most, apart * most, bins, inside)

    def place(self, index: IndexArray) -> IndexArray:
        """Where a sample of each window is in the flat array of rows, [S, T]."""
        offsets = np.arange(index.shape[0]) * self.timestamps_ms.shape[1]
        places: IndexArray = index + offsets[:, None]
        return places

    @cached_property
    def oldest(self) -> IndexArray:
        """Where each window's first sample is: a column if shared, else a flat place."""
        inside = np.minimum(self.lo, self.timestamps_ms.shape[-1] - 1)
        return inside if self.shared else self.place(inside)

    @cached_property
    def newest(self) -> IndexArray:
        """Where each window's last sample is."""
        inside = np.maximum(self.hi, 1) - 1
        return inside if self.shared else self.place(inside)

    def times_at(self, place: IndexArray) -> Int64Array:
        """The times of samples given by `oldest` or `newest`."""
        return np.take(self.timestamps_ms, place)
