"""Samples in slots as long as a step, where none holds two: windows are then slices of arrays.

Most series are sampled once per step, whether their timestamps are even or jitter, but for a few
gaps. Slot by slot such a series is as regular as its axis, and so are its windows and the cuts
between which they are folded (see engine/promql/cuts.py): nothing has to be looked up by index,
and one operation on arrays serves the same slot of all stretches. What is folded, and in which
order, is the same as by any other way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.cuts import stretches

if TYPE_CHECKING:
    from engine.promql.bounds import Edges, IndexArray
    from engine.series import Float64Array, Int64Array

# On a shorter axis, what a series costs in Python is more than what its slots save.
FEWEST_STEPS = 512
# Runs shorter than this on average are not worth it either.
SHORTEST_RUN = 16

# Samples start … stop - 1 fill the slots from `slot` on.
Run: TypeAlias = "tuple[int, int, int]"
# A row's windows, and as many of its samples or one for all of them.
Piece: TypeAlias = "tuple[int, slice, slice]"


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the slots of an axis are.

    The first begins at `origin_ms`, a multiple of the windows' length; window j is the slots
    first + j … first + j + width - 1. Slots of a stretch between cuts: `short`; there are
    `stretches` of them, `parts` for each window's length.
    """

    origin_ms: int
    step_ms: int
    first: int
    steps: int
    width: int
    parts: int
    stretches: int

    @classmethod
    def of(cls, edges: Edges) -> Frame | None:
        """The slots of these windows; None unless the steps divide what is between two cuts."""
        step, length, steps = edges.step_ms, edges.range_ms, edges.end_ms.size
        if steps < FEWEST_STEPS or not step:
            return None
        parts = stretches(length)
        first_ms, last_ms = int(edges.end_ms[0]), int(edges.end_ms[-1])
        if length % (step * parts) or first_ms % step:
            return None
        origin = (first_ms - length) // length * length
        count = -(-(last_ms - origin) // length)
        first = (first_ms - length - origin) // step
        return cls(origin, step, first, steps, length // step, parts, count * parts)

    @property
    def short(self) -> int:
        """Slots between two cuts of any kind."""
        return self.width // self.parts

    @property
    def slots(self) -> int:
        """All of them."""
        return self.short * self.stretches

    def runs(self, times_ms: Int64Array) -> tuple[Run, ...] | None:
        """How samples at these times fill the slots; None if any holds two, or with many gaps."""
        # A slot without a sample costs as much as one with.
        if self.slots > 4 * (self.steps + times_ms.size):
            return None
        slots = times_ms - (self.origin_ms + 1)
        np.floor_divide(slots, self.step_ms, out=slots)
        start, stop = np.searchsorted(slots, (0, self.slots)).tolist()
        if start == stop:
            return ()
        slots = slots[start:stop]
        hops = slots[1:] - slots[:-1]
        breaks = np.flatnonzero(hops != 1)
        if breaks.size * SHORTEST_RUN > slots.size or not hops[breaks].all():
            return None
        breaks += 1
        starts, at = [0, *breaks.tolist()], [int(slots[0]), *slots[breaks].tolist()]
        stops = [*starts[1:], slots.size]
        return tuple(
            (start + one, start + other, slot)
            for one, other, slot in zip(starts, stops, at, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Seam:
    """Slots of some rows without a sample, and the stretch on whose far side they are folded.

    They reach up to the far end of a stretch at least, or from the near end of one.
    """

    rows: slice
    start: int
    stop: int
    stretch: int


@dataclass(eq=False)
class Grid:
    """The slots of a block. `runs`: of each row, or of all rows if they share timestamps."""

    frame: Frame
    runs: tuple[tuple[Run, ...], ...]
    shared: bool

    @cached_property
    def upto(self) -> IndexArray:
        """How many samples are before each slot and, last, before the end: [rows, slots + 1]."""
        found = np.empty((len(self.runs), self.frame.slots + 1), dtype=np.intp)
        for row, runs in zip(found, self.runs, strict=True):
            filled, known = 0, runs[0][0] if runs else 0
            for start, stop, slot in runs:
                row[filled:slot] = known
                filled, known = slot + stop - start, stop
                row[slot:filled] = np.arange(start, stop)
            row[filled:] = known
        return found

    @cached_property
    def seams(self) -> tuple[list[Seam], list[Seam]]:
        """Gaps beyond a stretch, as prefixes end in them and as suffixes begin in them.

        What ends in a stretch without a sample before it ends, in truth, with the last stretch
        before that has any.
        """
        frame, forward, backward = self.frame, list[Seam](), list[Seam]()
        if frame.parts == 1:
            return forward, backward
        for rows, runs in self._rows(None):
            filled = 0
            for start, stop, slot in (*runs, (0, 0, frame.slots)):
                if filled:
                    stretch = (filled - 1) // frame.short
                    cut = (stretch // frame.parts + 1) * frame.width
                    begin, end = (stretch + 1) * frame.short, min(slot, cut)
                    if begin < end:
                        forward.append(Seam(rows, begin, end, stretch))
                if slot < frame.slots:
                    stretch = slot // frame.short
                    begin = max(filled, stretch // frame.parts * frame.width)
                    if begin < stretch * frame.short:
                        backward.append(Seam(rows, begin, stretch * frame.short, stretch))
                filled = slot + stop - start
        return forward, backward

    @cached_property
    def holes(self) -> list[tuple[slice, IndexArray, IndexArray]]:
        """Rows, and the places and columns of their slots without a sample."""
        found = []
        for rows, runs in self._rows(None):
            filled = np.zeros(self.frame.slots, dtype=np.bool_)
            for start, stop, slot in runs:
                filled[slot : slot + stop - start] = True
            columns, places = np.divmod(np.flatnonzero(~filled), self.frame.short)
            found.append((rows, places, columns + 1))
        return found

    @property
    def lo(self) -> IndexArray:
        """The number of each window's first sample, [rows, T]."""
        return self.upto[:, self.frame.first : self.frame.first + self.frame.steps]

    @property
    def hi(self) -> IndexArray:
        """One more than the number of each window's last sample."""
        first = self.frame.first + self.frame.width
        return self.upto[:, first : first + self.frame.steps]

    def spread(self, values: Float64Array, fill: float = 0.0) -> Float64Array:
        """Values, [S, N], in their slots, [S, slots]; `fill` where there is no sample."""
        spread = np.empty((values.shape[0], self.frame.slots))
        for rows, runs in self._rows(values.shape[0]):
            filled = 0
            for start, stop, slot in runs:
                spread[rows, filled:slot] = fill
                filled = slot + stop - start
                spread[rows, slot:filled] = values[rows, start:stop]
            spread[rows, filled:] = fill
        return spread

    def oldest(self, values: Float64Array) -> Float64Array:
        """Each window's first value, [S, T]; some value for an empty one."""
        return self._picked(values, self._oldest)

    def newest(self, values: Float64Array) -> Float64Array:
        """Each window's last value, [S, T]; some value for an empty one."""
        return self._picked(values, self._newest)

    def _picked(self, values: Float64Array, pieces: list[Piece]) -> Float64Array:
        found = np.empty((values.shape[0], self.frame.steps))
        if self.shared:
            for _, steps, samples in pieces:
                found[:, steps] = values[:, samples]
        else:
            for row, steps, samples in pieces:
                found[row, steps] = values[row, samples]
        return found

    @cached_property
    def _oldest(self) -> list[Piece]:
        """A gap's windows begin with the sample after it; behind the last one there is none."""
        found: list[Piece] = []
        for row, runs in enumerate(self.runs):
            filled, last = 0, 0
            for start, stop, slot in runs:
                self._put(found, row, (filled, slot, 0), start)
                filled, last = slot + stop - start, stop - 1
                self._put(found, row, (slot, filled, 0), start, run=True)
            self._put(found, row, (filled, self.frame.slots, 0), last)
        return found

    @cached_property
    def _newest(self) -> list[Piece]:
        """A gap's windows end with the sample before it."""
        found: list[Piece] = []
        shift = self.frame.width - 1
        for row, runs in enumerate(self.runs):
            filled, last = 0, 0
            for start, stop, slot in runs:
                self._put(found, row, (filled, slot, shift), last)
                filled, last = slot + stop - start, stop - 1
                self._put(found, row, (slot, filled, shift), start, run=True)
            self._put(found, row, (filled, self.frame.slots, shift), last)
        return found

    def _put(
        self,
        pieces: list[Piece],
        row: int,
        slots: tuple[int, int, int],
        sample: int,
        *,
        run: bool = False,
    ) -> None:
        """The windows whose slot of some number is one of these: a run's samples, or all one."""
        start, stop, shift = slots
        first, steps = self.frame.first + shift, self.frame.steps
        begin, end = max(start - first, 0), min(stop - first, steps)
        if begin < end:
            sample += begin + first - start if run else 0
            size = end - begin if run else 1
            pieces.append((row, slice(begin, end), slice(sample, sample + size)))

    def _rows(self, count: int | None) -> list[tuple[slice, tuple[Run, ...]]]:
        if self.shared:
            return [(slice(0, count), self.runs[0])]
        return [(slice(row, row + 1), runs) for row, runs in enumerate(self.runs)]

    def extremes(self, values: Float64Array, pick: np.ufunc) -> Float64Array:
        """The extreme of each window, [S, T], by doubling how many slots are folded.

        `pick`: np.fmax or np.fmin. Some value for an empty window.
        """
        frame, neutral = self.frame, np.nan
        if not np.isnan(values.max(initial=0.0)):
            # These are twice as fast, but NaN beats all.
            largest = pick is np.fmax
            pick, neutral = (np.maximum, -np.inf) if largest else (np.minimum, np.inf)
        size = frame.steps + frame.width - 1
        folded = self.spread(values, neutral)[:, frame.first : frame.first + size]
        wide = 1
        while 2 * wide <= frame.width:
            folded = pick(folded[:, :-wide], folded[:, wide:])
            wide *= 2
        rest = frame.width - wide
        if rest:
            folded = pick(folded[:, :-rest], folded[:, rest:])
        return folded
