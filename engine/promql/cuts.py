"""Windows cut in two, so that folding one costs the same whatever its length.

Time is cut at the multiples of the windows' length since 1970. Exactly one of them lies in each
window [its left edge, its right edge]: the window is some last samples before that cut and some
first samples after it. Folding every stretch between two cuts once from its start and once from
its end gives all windows (van Herk, Gil and Werman). The cuts depend on nothing but the length, so
a window's bits are the same on any axis.

The running folds are kept by position: first all stretches' first samples, then all their second
ones, and so on, the longest stretches in front. The next position is then one addition of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.promql.bounds import Bounds, IndexArray
    from engine.series import Float64Array


@dataclass(eq=False)
class Cuts:
    """Stretches, positions in them, and windows as pairs of positions.

    `forward` and `backward`: where each sample's value goes, counted from the start and from the
    end of its stretch; `suffix` and `prefix`: where each window's two running folds are; place 0
    means none. All [N] or [T] if timestamps are shared, else [S, N] and [S, T]. `heights`: how
    many stretches have a sample at position 0 (where nothing has been folded yet), 1, 2, ….
    `after`: the number of a window's samples after its cut.
    """

    forward: IndexArray
    backward: IndexArray
    suffix: IndexArray
    prefix: IndexArray
    after: IndexArray
    heights: list[int]
    shared: bool
    _layouts: dict[int, Layout] = field(default_factory=dict)

    @classmethod
    def of(cls, bounds: Bounds) -> Cuts:
        """Cut the windows of these bounds."""
        times = np.atleast_2d(bounds.timestamps_ms)
        size = times.shape[1]
        range_ms = bounds.edges.range_ms
        if not size:
            none = np.zeros(bounds.lo.shape, dtype=np.intp)
            empty = np.zeros(bounds.timestamps_ms.shape, dtype=np.intp)
            return cls(empty, empty, none, none, none, [1], bounds.shared)
        number = np.floor_divide(times - 1, range_ms)
        starts = np.ones(times.shape, dtype=np.bool_)
        np.not_equal(number[:, 1:], number[:, :-1], out=starts[:, 1:])
        flat = np.flatnonzero(starts)
        stops = np.append(flat[1:], times.size)
        if bounds.sizes is not None:
            # What only fills a row up is in no stretch.
            stops = np.minimum(stops, (flat // size) * size + bounds.sizes[flat // size])
        lengths = np.maximum(stops - flat, 0)
        order = np.argsort(-lengths, kind="stable")
        rank = np.empty(order.size, dtype=np.intp)
        rank[order] = np.arange(order.size)
        depth = int(lengths.max())
        tall = np.bincount(lengths, minlength=depth + 1)[::-1].cumsum()[::-1]
        heights = [order.size, *tall[1:].tolist()]
        offsets = np.append(0, np.cumsum(heights))
        stretch = np.cumsum(starts.ravel()) - 1
        place = np.arange(times.size)
        from_start = place - flat[stretch] + 1
        from_end = stops[stretch] - place
        ranks = rank[stretch]
        total = int(offsets[-1])
        if bounds.sizes is not None:
            np.clip(from_start, 0, depth, out=from_start)
            np.clip(from_end, 0, depth, out=from_end)
        forward = offsets[from_start] + ranks
        backward = offsets[from_end] + ranks
        if bounds.sizes is not None:
            fills = from_end <= 0
            forward[fills] = backward[fills] = total
        shape = bounds.timestamps_ms.shape
        cut = np.floor_divide(bounds.edges.end_ms, range_ms)
        oldest, newest = bounds.oldest, bounds.newest
        number = number.ravel()
        before = (number[oldest] < cut) & bounds.filled
        beyond = (number[newest] == cut) & bounds.filled
        return cls(
            forward.reshape(shape),
            backward.reshape(shape),
            backward[oldest] * before,
            forward[newest] * beyond,
            from_start[newest] * beyond,
            heights,
            bounds.shared,
        )

    def layout(self, rows: int) -> Layout:
        """The places for a block of so many rows."""
        if not self.shared:
            rows = 1
        found = self._layouts.get(rows)
        if found is None:
            found = self._layouts[rows] = Layout(self, rows)
        return found


@dataclass(eq=False)
class Layout:
    """The places of a block's running folds: [2, places], forwards and backwards.

    Rows that share timestamps lie side by side at each place.
    """

    cuts: Cuts
    rows: int

    @cached_property
    def lines(self) -> list[tuple[int, int]]:
        """Start and stop of each position."""
        edges = np.cumsum([0, *self.cuts.heights]) * self.rows
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    @property
    def size(self) -> int:
        """The number of places."""
        return self.lines[-1][1]

    def spread(self, values: Float64Array, neutral: float = 0.0) -> Float64Array:
        """Values, [S, N], at their places, [2, places]; `neutral` at position 0."""
        # One place more, for what only fills a row up.
        width = self.size + self.rows
        spread = np.empty((2, width))
        spread[:, : self.lines[0][1]] = neutral
        for half, places in zip(spread, (self.cuts.forward, self.cuts.backward), strict=True):
            half[self._of_block(places)] = values
        return spread[:, : self.size]

    @cached_property
    def prefix(self) -> IndexArray:
        """Where each window's fold of the samples after its cut is, [S, T]."""
        return self._of_block(self.cuts.prefix)

    @cached_property
    def suffix(self) -> IndexArray:
        """Where each window's fold of the samples before its cut is, [S, T]."""
        return self._of_block(self.cuts.suffix)

    def _of_block(self, places: IndexArray) -> IndexArray:
        if places.ndim == 2:
            return places
        return places * self.rows + np.arange(self.rows)[:, None]

    def steps(self) -> Iterator[tuple[slice, slice]]:
        """From one position to the next: what has been folded so far, and what comes to it."""
        for (before, _), (start, stop) in zip(self.lines, self.lines[1:], strict=False):
            yield slice(before, before + stop - start), slice(start, stop)

    def blocks(self) -> Iterator[tuple[slice, slice, list[tuple[slice, slice]]]]:
        """Positions in groups of equal heights whose arrays stay in cache."""
        steps = list(self.steps())
        at = 0
        while at < len(steps):
            previous, current = steps[at]
            group = [steps[at]]
            limit = current.start + BLOCK_PLACES
            begin, end = previous.start, current.stop
            at += 1
            if previous.stop == current.start:
                while at < len(steps):
                    following = steps[at][1]
                    same = following.stop - following.start == current.stop - current.start
                    if not same or following.stop > limit:
                        break
                    group.append(steps[at])
                    end = following.stop
                    at += 1
            stop = begin + end - current.start
            yield slice(begin, stop), slice(current.start, end), group


BLOCK_PLACES = 4_096
