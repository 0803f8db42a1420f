"""Which rows of two vectors have equal labels to be matched on; from their labels alone.

All of it is remembered for the same two tuples of labels, so that a live rule pairs its series up
once and not at every tick. L and R rows on the left and right, K different signatures, P pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.folding import count_by_group, seen_by_group
from engine.promql.naming import METADATA, unnamed
from engine.promql.remembered import REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Hashable

    from engine.labels import Labels
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray
    from rules.promql.ast import VectorMatching

    LabelSets: TypeAlias = tuple[Labels, ...]


def signature(labels: Labels, matching: VectorMatching) -> Labels:
    """The labels that two series must share to match."""
    if matching.on:
        return labels.only(*matching.labels)
    return labels.without(*matching.labels, *METADATA)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The signatures of one vector's rows: the number of each row's, and what has which number."""

    numbers: IndexArray
    labels: tuple[Labels, ...]
    numbers_of: dict[Labels, int]

    @classmethod
    def of(cls, side: LabelSets, matching: VectorMatching) -> _Side:
        question = ("signature", matching.on, matching.labels)
        return REMEMBERED.get((side,), question, lambda: cls._made(side, matching))

    @classmethod
    def _made(cls, side: LabelSets, matching: VectorMatching) -> _Side:
        numbers_of: dict[Labels, int] = {}
        found = (numbers_of.setdefault(signature(own, matching), len(numbers_of)) for own in side)
        numbers = np.fromiter(found, np.intp, len(side))
        return cls(numbers, tuple(numbers_of), numbers_of)


@dataclass(frozen=True, eq=False)
class Signatures:
    """The numbers of signatures, [L] and [R], equal where they are; K of them."""

    left: IndexArray
    right: IndexArray
    labels: tuple[Labels, ...]

    @classmethod
    def of(cls, left: LabelSets, right: LabelSets, matching: VectorMatching) -> Signatures:
        """The signatures of two vectors' rows."""
        question = ("signatures", matching.on, matching.labels)
        return REMEMBERED.get((left, right), question, lambda: cls._made(left, right, matching))

    @classmethod
    def _made(cls, left: LabelSets, right: LabelSets, matching: VectorMatching) -> Signatures:
        one, other = _Side.of(left, matching), _Side.of(right, matching)
        # Only one side is gone through: the other is often a few rows that a filter has left.
        fresh: list[Labels] = []
        renumbered = np.empty(len(other.labels), dtype=np.intp)
        for place, own in enumerate(other.labels):
            number = one.numbers_of.get(own)
            if number is None:
                number = len(one.labels) + len(fresh)
                fresh.append(own)
            renumbered[place] = number
        return cls(one.numbers, renumbered[other.numbers], one.labels + tuple(fresh))

    def seen(self, numbers: IndexArray, present: BoolArray) -> BoolArray:
        """Where any row with each signature is present, [K, T]."""
        return seen_by_group(present, numbers, len(self.labels))

    @cached_property
    def right_rivals(self) -> Rivals:
        """Rows of the right side that have a signature in common."""
        return Rivals.of(self.right)

    @cached_property
    def count(self) -> int:
        """P."""
        width = len(self.labels)
        left, right = (np.bincount(side, minlength=width) for side in (self.left, self.right))
        return int(left @ right)


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """All pairs of rows that match, by rows of the "many" side.

    `labels`: those of each pair's result. `rivals`: pairs of which no two may be present at a step.
    """

    many: IndexArray
    one: IndexArray
    labels: LabelSets
    rivals: Rivals

    @classmethod
    def of(
        cls, many: LabelSets, one: LabelSets, matching: VectorMatching, *, keeps_name: bool
    ) -> Pairing:
        """The pairs of two vectors' rows."""
        question = (
            "pairs",
            matching.cardinality,
            matching.on,
            matching.labels,
            matching.include,
            keeps_name,
        )

        def make() -> Pairing:
            return cls._made(many, one, matching, keeps_name=keeps_name)

        return REMEMBERED.get((many, one), question, make)

    @classmethod
    def _made(
        cls, many: LabelSets, one: LabelSets, matching: VectorMatching, *, keeps_name: bool
    ) -> Pairing:
        found = Signatures.of(many, one, matching)
        order = np.argsort(found.right, kind="stable")
        ordered = found.right[order]
        first = np.searchsorted(ordered, found.left, side="left")
        counts = np.searchsorted(ordered, found.left, side="right") - first
        many_rows = np.repeat(np.arange(len(many), dtype=np.intp), counts)
        within = np.arange(many_rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        one_rows = order[np.repeat(first, counts) + within]
        labels = tuple(
            result_labels(matching, many[row], one[other], keeps_name=keeps_name)
            for row, other in zip(many_rows.tolist(), one_rows.tolist(), strict=True)
        )
        explicit = matching.cardinality == "one-to-one"
        numbers = found.left[many_rows] if explicit else _numbered(list(labels))
        return cls(many_rows, one_rows, labels, Rivals.of(numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Rivals:
    """Rows of which several have the same number: no two of a group may be present at one step.

    `rows`: those rows; `groups`: the group of each; G groups, in the order of their first rows.
    """

    rows: IndexArray
    groups: IndexArray
    count: int

    @classmethod
    def of(cls, numbers: IndexArray) -> Rivals:
        """The rows that share a number."""
        _, first, inverse, sizes = np.unique(
            numbers, return_index=True, return_inverse=True, return_counts=True
        )
        shared = np.flatnonzero(sizes > 1)
        shared = shared[np.argsort(first[shared])]
        group_of = np.full(sizes.size, -1, dtype=np.intp)
        group_of[shared] = np.arange(shared.size)
        groups = group_of[inverse]
        rows = np.flatnonzero(groups >= 0)
        return cls(rows, groups[rows], shared.size)

    def clashes(self, present: BoolArray) -> BoolArray:
        """Where two rows of a group are present, [G, T]; `present`: bool[S, T] of all rows."""
        if not self.count:
            return np.zeros((0, present.shape[1]), dtype=np.bool_)
        counts = count_by_group(present[self.rows], self.groups, self.count)
        return np.greater(counts, 1)

    def members(self, group: int) -> IndexArray:
        """The rows of a group."""
        found: IndexArray = self.rows[self.groups == group]
        return found


def _numbered(keys: list[Hashable]) -> IndexArray:
    numbers: dict[Hashable, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.intp, len(keys))


def result_labels(
    matching: VectorMatching, many: Labels, one: Labels, *, keeps_name: bool
) -> Labels:
    """The labels of what two rows make."""
    labels = many if keeps_name else unnamed(many)
    if matching.cardinality == "one-to-one":
        labels = labels.only(*matching.labels) if matching.on else labels.without(*matching.labels)
    if matching.include:
        labels = labels.merged({name: one.get(name) for name in matching.include})
    return labels
