"""When each alert's expression held: the result's rows put together by alert label sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.alerts.machine import SAME_LABELS, Element
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.labels import Labels
    from engine.promql.value import Vector
    from engine.series import BoolArray

Positions: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """`there`: bool[G, T], whether alert g's expression held at a step that is not in `twice`.

    `rows`: the rows of the result that make alert g, nearly always one. `good`: int[T], the steps
    as positions in the result. `twice`: steps at which two rows make the same alert, and why the
    rule fails there.
    """

    labels: tuple[Labels, ...]
    rows: tuple[tuple[int, ...], ...]
    there: BoolArray
    good: Positions
    twice: dict[int, str]
    result: Vector

    @classmethod
    def of(cls, result: Vector, labels: Sequence[Labels], others: Iterable[Labels]) -> Presence:
        """`labels`: the alert's, of each row; `others`: alerts that are known already."""
        groups: dict[Labels, list[int]] = {}
        for row, own in enumerate(labels):
            groups.setdefault(own, []).append(row)
        several = [rows for rows in groups.values() if len(rows) > 1]
        for own in others:
            groups.setdefault(own, [])
        there = result.present
        twice: dict[int, str] = {}
        if len(groups) > len(labels) or several:
            there = np.zeros((len(groups), there.shape[1]), dtype=np.bool_)
            for number, rows in enumerate(groups.values()):
                there[number] = result.present[rows].any(axis=0)
            for rows in several:
                for step in np.flatnonzero(result.present[rows].sum(axis=0) > 1).tolist():
                    twice[step] = ""
            for step in twice:
                twice[step] = _complaint(labels, result.present[:, step])
        good = np.arange(there.shape[1])
        if twice:
            good = np.delete(good, list(twice))
            there = there[:, good]
        return cls(tuple(groups), tuple(map(tuple, groups.values())), there, good, twice, result)

    def element(self, alert: int, step: int) -> Element:
        """What made an alert at a step at which it was there."""
        at = self.good[step]
        rows = self.rows[alert]
        row = next(row for row in rows if self.result.present[row, at]) if rows[1:] else rows[0]
        return Element(self.result.labels[row], float(self.result.values[row, at]))


def _complaint(labels: Sequence[Labels], present: BoolArray) -> str:
    """As `step` words it: of the first row whose label set another row has had."""
    seen = set()
    for row in np.flatnonzero(present).tolist():
        if labels[row] in seen:
            return f"{SAME_LABELS}: {labels[row]}"
        seen.add(labels[row])
    raise AssertionError("no label set is there twice")
