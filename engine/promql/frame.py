"""A vector while it is being evaluated: rows of series, columns of steps.

S is the number of series, T the number of steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import SAME_LABELSET, EvaluationError
from engine.promql.remembered import REMEMBERED
from engine.promql.value import Vector
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.labels import Labels
    from engine.series import BoolArray, Float64Array
    from rules.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """An instant vector at each step.

    `values`: float64[S, T]; `present`: bool[S, T]. `drops[s]`: the name of row s is to be
    removed once the whole expression is evaluated. `ordered`: the order of rows is meant.

    `histograms`: None, nearly always, or bool[S, T]: the elements that are native histograms. Their
    values mean nothing; where one would decide a result the evaluation is refused (`refuse`
    and its kin in engine/promql/natives.py say what becomes of them).
    """

    labels: tuple[Labels, ...]
    values: Float64Array
    present: BoolArray
    drops: tuple[bool, ...]
    ordered: bool = False
    histograms: BoolArray | None = None

    @classmethod
    def empty(cls, steps: int) -> Frame:
        """No series, `steps` steps."""
        return cls((), np.empty((0, steps)), np.empty((0, steps), dtype=np.bool_), ())

    @property
    def steps(self) -> int:
        """T."""
        return int(self.values.shape[1])

    def take(self, rows: Sequence[int], *, ordered: bool = False) -> Frame:
        """The rows with these numbers, in this order."""
        index = np.asarray(rows, dtype=np.intp)
        return Frame(
            tuple(self.labels[row] for row in rows),
            self.values[index],
            self.present[index],
            tuple(self.drops[row] for row in rows),
            ordered,
            None if self.histograms is None else self.histograms[index],
        )

    def with_values(self, values: Float64Array, present: BoolArray | None = None) -> Frame:
        """The same rows with other values; what was a histogram still is one."""
        kept = self.present if present is None else present
        return replace(self, values=values, present=kept, ordered=False)

    def only_where(self, mask: BoolArray) -> Frame:
        """The same rows, present only where `mask`, [S, T] or [T], is True too."""
        return replace(self, present=self.present & mask)

    def native(self) -> BoolArray | None:
        """bool[S, T]: present elements that are native histograms; None if there is none."""
        if self.histograms is None:
            return None
        found: BoolArray = self.present & self.histograms
        return found if found.any() else None

    def without_histograms(self) -> Frame:
        """The float elements only."""
        if self.histograms is None:
            return self
        return replace(self, present=self.present & ~self.histograms, histograms=None)

    @classmethod
    def stacked(cls, parts: Sequence[Frame]) -> Frame:
        """The rows of all parts, one part below the other. At least one part."""
        histograms: BoolArray | None = None
        if any(part.histograms is not None for part in parts):
            histograms = np.concatenate(
                [
                    np.zeros(part.values.shape, dtype=np.bool_)
                    if part.histograms is None
                    else part.histograms
                    for part in parts
                ]
            )
        return cls(
            tuple(labels for part in parts for labels in part.labels),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.present for part in parts]),
            tuple(drop for part in parts for drop in part.drops),
            histograms=histograms,
        )

    def without_absent(self) -> Frame:
        """Only the rows that are present at some step."""
        alive = self.present.any(axis=1)
        if alive.all():
            return self
        return self.take(np.flatnonzero(alive).tolist(), ordered=self.ordered)

    def merged(self, span: Span | None = None) -> Frame:
        """Rows with equal labels and fate become one row.

        Rows that differ only in whether the name is to go stay apart, since each step must come
        out as it would alone. Raises EvaluationError if two rows with equal labels are present at
        the same step.
        """
        every = self.labels
        if REMEMBERED.get((every,), "distinct", lambda: len(set(every)) == len(every)):
            return self
        clashes: dict[Labels, list[int]] = {}
        groups: dict[tuple[Labels, bool], list[int]] = {}
        for row, (labels, drop) in enumerate(zip(self.labels, self.drops, strict=True)):
            clashes.setdefault(labels, []).append(row)
            groups.setdefault((labels, drop), []).append(row)
        if any((self.present[rows].sum(axis=0) > 1).any() for rows in clashes.values()):
            raise EvaluationError(SAME_LABELSET, span)
        steps = np.arange(self.steps)
        owners = {key: self.present[rows].argmax(axis=0) for key, rows in groups.items()}
        values = [self.values[rows][owners[key], steps] for key, rows in groups.items()]
        present = [self.present[rows].any(axis=0) for rows in groups.values()]
        names, drops = tuple(key[0] for key in groups), tuple(key[1] for key in groups)
        histograms: BoolArray | None = None
        if self.histograms is not None:
            kept = self.histograms
            histograms = np.stack([kept[rows][owners[key], steps] for key, rows in groups.items()])
        return Frame(names, np.stack(values), np.stack(present), drops, histograms=histograms)

    def vector(self) -> Vector:
        """The finished vector."""
        order = tuple(range(len(self.labels))) if self.ordered else None
        return Vector(self.labels, self.values, self.present, order)
