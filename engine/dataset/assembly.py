"""Samples in any order become series: sorted, de-duplicated, timestamps shared.

Data nearly always come in runs of one series in the order of time, and stay the arrays that were
read: only what is out of order is sorted, and only what is in pieces is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.runs import Block, Pieces, Sharing, gathered, rows_by_series
from engine.labels import Labels
from engine.series import Series
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.dataset.runs import Clash, Conflict, Order
    from engine.series import Float64Array, Int64Array, TextArray

# Shorter runs than this, on average, are gathered by a sort instead of one by one: among rows that
# are added together, and in the end among all, where they are not copied for a few series.
SHORT_RUN = 64
_SHORTEST_RUN = 16
_NO_LABELS = Labels()


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
        self._blocks: list[Block] = []
        self._rows = 0

    def number(self, labels: Labels) -> int:
        """The number of a series, a new one if it is new."""
        return self._numbers.setdefault(labels, len(self._numbers))

    def add(self, numbers: Int64Array, samples: Series) -> None:
        """Add rows: the number of each one's series, and what it holds (`rows_read`).

        Rows with a number below 0 are left out.
        """
        size = numbers.size
        if not size:
            return
        changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        rows: Order | None = None
        if (changes.size + 1) * SHORT_RUN > size:
            order = rows_by_series(numbers, len(self._numbers))
            numbers, samples = numbers[order], samples.picked(order)
            changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
            rows = order + self._rows
        edges = np.concatenate([[0], changes, [size]])
        self._add(numbers[edges[:-1]], edges, samples, rows)

    def add_runs(self, numbers: Int64Array, edges: Sequence[int], samples: Series) -> None:
        """Add runs of rows, those between two edges of one series, and whose each run is."""
        self._add(numbers, np.asarray(edges, dtype=np.int64), samples)

    def add_series(self, series: Series) -> None:
        """Add samples of one series."""
        if size := series.values.size:
            self._add(np.array([self.number(series.labels)]), np.array([0, size]), series)

    def skip(self, rows: int) -> None:
        """Rows that were left out, so that those after them keep their place."""
        self._rows += rows

    def build(self) -> Assembled:
        """All rows as series. To be called once: what was added is given up on the way."""
        blocks, self._blocks = self._blocks, []
        runs = sum(block.numbers.size for block in blocks)
        if runs * _SHORTEST_RUN > sum(block.samples.values.size for block in blocks):
            blocks = [gathered(blocks, len(self._numbers))] if blocks else []
        ordered = sorted(self._numbers, key=lambda labels: labels.pairs)
        pieces = Pieces(blocks, len(self._numbers))
        del blocks
        sharing = Sharing()
        found: list[Series] = []
        clashes: list[Clash] = []
        for labels in ordered:
            number = self._numbers[labels]
            if pieces.counts[number]:
                whole, clash = pieces.whole(labels, number, sharing)
                found.append(whole)
                clashes += [] if clash is None else [clash]
        conflicts = [clash.conflict for clash in clashes if clash.conflict is not None]
        return Assembled(
            tuple(found),
            sum(clash.repeated for clash in clashes),
            sum(clash.conflicting for clash in clashes),
            # The first one in the file is what its author looks for first.
            min(conflicts, key=lambda conflict: conflict.row, default=None),
        )

    def _add(
        self, numbers: Int64Array, edges: Int64Array, samples: Series, rows: Order | None = None
    ) -> None:
        self._blocks.append(Block(samples, numbers, edges, self._rows, rows))
        self._rows += samples.values.size
