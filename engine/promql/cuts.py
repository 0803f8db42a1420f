"""Windows cut in two, so that folding one costs the same whatever its length.

Time is cut at the multiples of the windows' length since 1970. Exactly one of them lies in each
window [its left edge, its right edge]: the window is some last samples before that cut and some
first samples after it. Folding all between two cuts once from its start and once from its end
gives all windows (van Herk, Gil and Werman). The cuts depend on nothing but the length, so a
window's bits are the same on any axis.

Long windows are cut into stretches once more; the running folds of a stretch then begin with the
fold of all stretches between it and the cut.

Running folds are kept by position: first every stretch's first sample, then every second one, and
so on, the longest stretches in front. The next position is then one operation on arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.promql.bounds import Bounds, IndexArray
    from engine.series import Float64Array, Int64Array

# Windows up to this length are not cut any further.
SHORT_MS = 1_200_000
# The unit in which a longer window's stretches and their number balance.
UNIT_MS = 10_000
# Steps that most axes have divide this.
EVEN_MS = 60_000
# Places whose arrays stay in cache together.
AT_ONCE = 4_096


def stretches(range_ms: int) -> int:
    """Into how many stretches a window's length is cut."""
    if range_ms <= SHORT_MS:
        return 1
    balanced = math.sqrt(range_ms / UNIT_MS)
    units, rest = divmod(range_ms, EVEN_MS)
    if rest:
        return round(balanced)
    # Whole units, so that a step seldom has a cut within.
    likely = range(max(2, int(balanced / 3)), int(balanced * 3) + 1)
    even = [parts for parts in likely if not units % parts]
    return min(even, key=lambda parts: abs(math.log(parts / balanced)), default=round(balanced))


@dataclass(frozen=True, slots=True, eq=False)
class Stairs:
    """Places of things in groups, by position in their group, the longest groups in front.

    `rank`: each group's own place within a position; `offsets`: where positions 0 (before the
    first thing), 1, 2, … begin; the last is their end. Place 0 is no position's.
    """

    rank: IndexArray
    offsets: IndexArray

    @classmethod
    def of(cls, lengths: IndexArray) -> Stairs:
        """Groups of these lengths."""
        order = np.argsort(-lengths, kind="stable")
        rank = np.empty(order.size, dtype=np.intp)
        rank[order] = np.arange(order.size)
        deep = np.bincount(lengths, minlength=1)[::-1].cumsum()[::-1]
        return cls(rank, 1 + np.concatenate(([0], np.cumsum(deep))))

    def steps(self, rows: int) -> list[Step]:
        """From each position to the next, for so many rows side by side."""
        edges = (self.offsets * rows).tolist()
        return [
            Step(slice(before, before + stop - start), slice(start, stop))
            for before, start, stop in zip(edges, edges[1:], edges[2:], strict=False)
        ]


@dataclass(frozen=True, slots=True)
class Step:
    """The places of what has been folded so far, and of what comes to it."""

    before: slice
    now: slice

    def joins(self, following: Step) -> bool:
        """Whether both can be one step over more places."""
        size = self.now.stop - self.now.start
        same = following.now.stop - following.now.start == size
        return bool(same and self.before.stop == self.now.start)


def joined(steps: list[Step]) -> list[tuple[Step, list[Step]]]:
    """Steps in runs of equal size, few enough to stay in cache, each as one step as well."""
    runs: list[list[Step]] = []
    for step in steps:
        run = runs[-1] if runs else None
        if run and run[-1].joins(step) and step.now.stop - run[0].now.start <= AT_ONCE:
            run.append(step)
        else:
            runs.append([step])
    return [
        (
            Step(
                slice(
                    run[0].before.start,
                    run[0].before.start + run[-1].now.stop - run[0].now.start,
                ),
                slice(run[0].now.start, run[-1].now.stop),
            ),
            run,
        )
        for run in runs
    ]


@dataclass(eq=False)
class Cuts:
    """Samples at places, and windows as pairs of places.

    `forward` and `backward`: where each sample goes, counted from the start and from the end of
    its stretch; `suffix` and `prefix`: where each window's two running folds are; 0 means none.
    All [N] or [T] if timestamps are shared, else [S, N] and [S, T].
    """

    forward: IndexArray
    backward: IndexArray
    suffix: IndexArray
    prefix: IndexArray
    stairs: Stairs
    upper: Upper | None
    # Where the samples between two cuts begin, and how many there are.
    starts: IndexArray
    extents: IndexArray

    @classmethod
    def of(cls, bounds: Bounds) -> Cuts:
        """Cut the windows of these bounds."""
        times, range_ms, sizes = bounds.timestamps_ms, bounds.edges.range_ms, bounds.sizes
        parts = stretches(range_ms)
        # At a cut a stretch ends: the sample there belongs before it.
        number = times - 1
        if parts > 1:
            number *= parts
        np.floor_divide(number, range_ms, out=number)
        rows = np.atleast_2d(number)
        breaks = np.ones(rows.shape, dtype=np.bool_)
        np.not_equal(rows[:, 1:], rows[:, :-1], out=breaks[:, 1:])
        starts = np.flatnonzero(breaks)
        extents = np.diff(starts, append=times.size)
        row = starts // rows.shape[1]
        lengths = extents
        if sizes is not None:
            # What only fills a row up, a stretch of its own, has no place.
            lengths = np.where(starts - row * rows.shape[1] < sizes[row], extents, 0)
        stairs = Stairs.of(lengths)
        samples = np.arange(times.size)
        from_start = samples - np.repeat(starts - 1, extents)
        from_end = np.repeat(starts + extents, extents) - samples
        if sizes is not None:
            limit = stairs.offsets.size - 2
            np.minimum(from_start, limit, out=from_start)
            np.minimum(from_end, limit, out=from_end)
        rank = np.repeat(stairs.rank, extents)
        forward = np.take(stairs.offsets, from_start)
        forward += rank
        backward = np.take(stairs.offsets, from_end)
        backward += rank
        if sizes is not None:
            fills = np.repeat(lengths == 0, extents)
            forward[fills] = backward[fills] = stairs.offsets[-1]
        main = number.ravel()[starts] // parts
        upper, between = None, starts
        if parts > 1:
            between = starts[_breaks(main, row)]
            upper = Upper.of(main, row, lengths, stairs)
        suffix, prefix = _of_windows(bounds, number, forward, backward, parts)
        shape = times.shape
        return cls(
            forward.reshape(shape),
            backward.reshape(shape),
            suffix,
            prefix,
            stairs,
            upper,
            between,
            np.diff(between, append=times.size),
        )

    @cached_property
    def first(self) -> IndexArray:
        """For each sample, where the first one after the cut before it is."""
        return np.repeat(self.starts, self.extents).reshape(self.forward.shape)

    @cached_property
    def last(self) -> IndexArray:
        """For each sample, where the last one before the cut after it is."""
        return np.repeat(self.starts + self.extents - 1, self.extents).reshape(self.forward.shape)


def _of_windows(
    bounds: Bounds, number: Int64Array, forward: IndexArray, backward: IndexArray, parts: int
) -> tuple[IndexArray, IndexArray]:
    """Where the fold of each window's samples before its cut is, and of those beyond it."""
    cut = np.floor_divide(bounds.edges.end_ms, bounds.edges.range_ms) * parts
    suffix, prefix = np.take(backward, bounds.oldest), np.take(forward, bounds.newest)
    # Few windows have nothing on one side of their cut.
    suffix[np.greater_equal(np.take(number, bounds.oldest), cut)] = 0
    prefix[np.less(np.take(number, bounds.newest), cut)] = 0
    if not bounds.filled.all():
        suffix *= bounds.filled
        prefix *= bounds.filled
    return suffix, prefix


def _breaks(main: IndexArray, row: IndexArray) -> IndexArray:
    """Which stretches are the first after a cut, or the first of a row.

    A stretch that only fills a row up is one of them, its time being so far away.
    """
    breaks = np.ones(main.size, dtype=np.bool_)
    breaks[1:] = (main[1:] != main[:-1]) | (row[1:] != row[:-1])
    return np.flatnonzero(breaks)


@dataclass(frozen=True, slots=True, eq=False)
class Upper:
    """The stretches between two cuts, folded as samples are within a stretch.

    All [stretches], in the order of their rank. `whole`: where the fold of a whole stretch is;
    `forward` and `backward`: where that goes; `ahead` and `behind`: where the fold of all
    stretches before it and after it is, up to the next cut.
    """

    whole: IndexArray
    forward: IndexArray
    backward: IndexArray
    ahead: IndexArray
    behind: IndexArray
    stairs: Stairs

    @classmethod
    def of(cls, main: IndexArray, row: IndexArray, lengths: IndexArray, stairs: Stairs) -> Upper:
        """`main`: between which cuts each stretch is; `row`: whose stretch it is."""
        starts = _breaks(main, row)
        extents = np.diff(starts, append=main.size)
        above = Stairs.of(extents)
        each = np.arange(main.size)
        from_start = each - np.repeat(starts - 1, extents)
        from_end = np.repeat(starts + extents, extents) - each
        rank = np.repeat(above.rank, extents)
        order = np.empty(main.size, dtype=np.intp)
        order[stairs.rank] = each
        whole = stairs.offsets[lengths] + stairs.rank
        forward, backward = above.offsets[from_start] + rank, above.offsets[from_end] + rank
        ahead, behind = above.offsets[from_start - 1] + rank, above.offsets[from_end - 1] + rank
        return cls(
            whole[order], forward[order], backward[order], ahead[order], behind[order], above
        )


@dataclass(eq=False)
class Layout:
    """The places of a block's running folds: [2, places], forwards and backwards.

    Rows that share timestamps lie side by side at each place.
    """

    cuts: Cuts
    rows: int

    @cached_property
    def steps(self) -> list[Step]:
        """From each position to the next."""
        return self.cuts.stairs.steps(self.rows)

    @cached_property
    def runs(self) -> list[tuple[Step, list[Step]]]:
        """The same, joined."""
        return joined(self.steps)

    @cached_property
    def first(self) -> slice:
        """Position 0, where nothing has been folded."""
        return slice(self.rows, int(self.cuts.stairs.offsets[1]) * self.rows)

    @cached_property
    def upper(self) -> UpperLayout | None:
        """The stretches between two cuts, if there are several."""
        return None if self.cuts.upper is None else UpperLayout(self.cuts.upper, self.rows)

    def spread(
        self, values: Float64Array, neutral: float = 0.0, backward: Float64Array | None = None
    ) -> Float64Array:
        """Values, [S, N], at their places, [2, places]; `neutral` up to position 0.

        `backward`: what to fold backwards, if that is something else.
        """
        size = int(self.cuts.stairs.offsets[-1]) * self.rows
        # One place more, for what only fills a row up.
        spread = np.empty((2, size + self.rows))
        spread[:, : self.first.stop] = neutral
        spread[0][self.forward] = values
        spread[1][self.backward] = values if backward is None else backward
        return spread[:, :size]

    @cached_property
    def forward(self) -> IndexArray:
        """Where each sample goes, [S, N]."""
        return beside(self.cuts.forward, self.rows)

    @cached_property
    def backward(self) -> IndexArray:
        """Where each sample goes, counted from the end."""
        return beside(self.cuts.backward, self.rows)

    @cached_property
    def prefix(self) -> IndexArray:
        """Where each window's fold of the samples after its cut is, [S, T]."""
        return beside(self.cuts.prefix, self.rows)

    @cached_property
    def suffix(self) -> IndexArray:
        """Where each window's fold of the samples before its cut is, [S, T]."""
        return beside(self.cuts.suffix, self.rows)


def beside(places: IndexArray, rows: int) -> IndexArray:
    """The places of so many rows side by side, [rows, …]; rows with places of their own as is."""
    if places.ndim == 2:
        return places
    found: IndexArray = places * rows + np.arange(rows)[:, None]
    return found


@dataclass(eq=False)
class UpperLayout:
    """Like Layout, for the stretches between two cuts."""

    upper: Upper
    rows: int

    @cached_property
    def steps(self) -> list[Step]:
        """From each position to the next."""
        return self.upper.stairs.steps(self.rows)

    @cached_property
    def runs(self) -> list[tuple[Step, list[Step]]]:
        """The same, joined."""
        return joined(self.steps)

    @cached_property
    def whole(self) -> IndexArray:
        """Where the running folds of a block have those of whole stretches, by rank."""
        return self._places(self.upper.whole)

    @cached_property
    def first(self) -> slice:
        """Position 0."""
        return slice(self.rows, int(self.upper.stairs.offsets[1]) * self.rows)

    def spread(self, whole: Float64Array, neutral: float) -> Float64Array:
        """The folds of whole stretches, [1 or 2, stretches] by rank, at their places, [2, places].

        One where they are the same in either direction.
        """
        spread = np.empty((2, int(self.upper.stairs.offsets[-1]) * self.rows))
        spread[:, : self.first.stop] = neutral
        spread[0][self._places(self.upper.forward)] = whole[0]
        spread[1][self._places(self.upper.backward)] = whole[-1]
        return spread

    def beyond(self, folded: Float64Array) -> Float64Array:
        """For each stretch, by rank, the fold of those between it and the cut, [2, stretches]."""
        ahead, behind = self._places(self.upper.ahead), self._places(self.upper.behind)
        return np.stack((folded[0][ahead], folded[1][behind]))

    def _places(self, places: IndexArray) -> IndexArray:
        return (places[:, None] * self.rows + np.arange(self.rows)).ravel()
