"""`by` and `without`: which rows of a vector fall into which group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.promql.naming import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.labels import Labels
    from engine.promql.windows import IndexArray
    from rules.promql.ast import Aggregate


def grouped_labels(labels: Labels, node: Aggregate) -> Labels:
    """The labels of the group that a series belongs to."""
    if node.without:
        return labels.without(*node.grouping, *METADATA)
    return labels.only(*node.grouping)


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of rows, largest first. `members[g]`: row numbers in the vector's order."""

    labels: tuple[Labels, ...]
    members: tuple[IndexArray, ...]

    @classmethod
    def of(cls, labels: tuple[Labels, ...], node: Aggregate) -> Groups:
        """The groups of these series."""
        rows: dict[Labels, list[int]] = {}
        for row, own in enumerate(labels):
            rows.setdefault(grouped_labels(own, node), []).append(row)
        # Largest first: at each pass of `ranks` the groups with a further member are a prefix.
        largest = sorted(rows, key=lambda key: -len(rows[key]))
        return cls(tuple(largest), tuple(np.array(rows[key], dtype=np.intp) for key in largest))

    def passes(self) -> Iterator[IndexArray]:
        """The first members of all groups, then the second of those that have one, and so on.

        Folding in this order adds each group's series one after another, as a loop would.
        """
        most = self.members[0].size if self.members else 0
        for number in range(most):
            yield np.array(
                [rows[number] for rows in self.members if rows.size > number], dtype=np.intp
            )
