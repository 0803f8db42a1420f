"""`by` and `without`: which rows of a vector fall into which group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.naming import METADATA
from engine.promql.remembered import REMEMBERED
from rules.slotted import dataclass

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
    """G groups, sorted by labels: at any step they come in the same order.

    `numbers`: the group of each row, [S].
    """

    labels: tuple[Labels, ...]
    numbers: IndexArray

    @classmethod
    def of(cls, labels: tuple[Labels, ...], node: Aggregate) -> Groups:
        """The groups of these series."""
        question = ("groups", node.without, node.grouping)
        return REMEMBERED.get((labels,), question, lambda: cls._made(labels, node))

    @classmethod
    def _made(cls, labels: tuple[Labels, ...], node: Aggregate) -> Groups:
        keys = [grouped_labels(own, node) for own in labels]
        ordered = sorted(set(keys), key=lambda key: key.pairs)
        number = {key: place for place, key in enumerate(ordered)}
        numbers = np.fromiter((number[key] for key in keys), np.intp, len(keys))
        return cls(tuple(ordered), numbers)

    @property
    def members(self) -> tuple[IndexArray, ...]:
        """The rows of each group, in the vector's order."""
        order = np.argsort(self.numbers, kind="stable")
        edges = np.searchsorted(self.numbers[order], np.arange(1, len(self.labels)))
        return tuple(np.split(order, edges))

    def by_size(self) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Groups with equally many rows: their numbers, [G], and their rows, [G, W]."""
        order = np.argsort(self.numbers, kind="stable")
        sizes = np.bincount(self.numbers, minlength=len(self.labels))
        starts = np.cumsum(sizes) - sizes
        for size in np.unique(sizes).tolist():
            numbers = np.flatnonzero(sizes == size)
            yield numbers, order[starts[numbers][:, None] + np.arange(size)]


def order_of(labels: tuple[Labels, ...]) -> IndexArray:
    """The place of each row, [S], if rows were sorted by labels."""

    def make() -> IndexArray:
        ordered = sorted(range(len(labels)), key=lambda row: labels[row].pairs)
        places = np.empty(len(labels), dtype=np.intp)
        places[ordered] = np.arange(len(labels))
        return places

    return REMEMBERED.get((labels,), "order", make)
