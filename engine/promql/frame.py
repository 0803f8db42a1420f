"""A vector while it is being evaluated: rows of series, columns of steps.

S is the number of series, T the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import SAME_LABELSET, EvaluationError
from engine.promql.value import Vector

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
    """

    labels: tuple[Labels, ...]
    values: Float64Array
    present: BoolArray
    drops: tuple[bool, ...]
    ordered: bool = False

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
        )

    def with_values(self, values: Float64Array, present: BoolArray | None = None) -> Frame:
        """The same rows with other values."""
        kept = self.present if present is None else present
        return replace(self, values=values, present=kept, ordered=False)

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
        if len(set(self.labels)) == len(self.labels):
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
        return Frame(names, np.stack(values), np.stack(present), drops)

    def vector(self) -> Vector:
        """The finished vector."""
        order = tuple(range(len(self.labels))) if self.ordered else None
        return Vector(self.labels, self.values, self.present, order)
