"""Small results over a long axis, computed for one stretch of time here and for others in forks.

An aggregate is small and what it is made of is large: where rows are shared out (blocks.py) all of
them have to come back, where time is, only the groups do. No result depends on how time is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.dataset import cut
from engine.matching import matcher_key
from engine.promql.annotations import Annotations
from engine.promql.folding import FOLDS
from engine.promql.forks import computed
from engine.promql.frame import Frame
from engine.promql.selection import reach_of
from engine.promql.sharing import Sharing
from engine.promql.tall import shape_of
from rules.promql.ast import (
    Aggregate,
    Binary,
    MatrixSelector,
    Paren,
    Subquery,
    ValueType,
    VectorSelector,
)
from rules.promql.types import type_of
from rules.promql.walk import unwrapped, walk
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.promql.context import Context
    from engine.series import BoolArray, Series
    from rules.promql.ast import Expr, Matcher

    Leaf = VectorSelector | MatrixSelector

# Shorter stretches cost more in forks than they save.
LEAST_STEPS = 256


def is_small(expr: Expr) -> bool:
    """Whether a result has a row for a group and none for a series, and is sorted by labels."""
    pending, found = [expr], False
    while pending:
        match pending.pop():
            # Values come in the order in which they are met.
            case Aggregate(op=op) if op != "count_values":
                found = True
            case Paren(expr=inner):
                pending.append(inner)
            case Binary(lhs=lhs, rhs=rhs) as binary if _keeps_order(binary):
                pending += [lhs, rhs]
            case other if type_of(other) is ValueType.SCALAR:
                pass
            case _:
                return False
    return found


def _keeps_order(node: Binary) -> bool:
    """Whether rows come in the order of the left side's, and with as many labels."""
    matching = node.matching
    if matching is None or node.op in {"and", "unless"}:
        return True
    filled = matching.fill_left is not None or matching.fill_right is not None
    if node.op == "or" or matching.cardinality != "one-to-one" or filled:
        return False
    if not matching.on and not matching.labels:
        return True
    # What is matched on is what the result has: rows sorted by more would be in another order.
    left = unwrapped(node.lhs)
    if not isinstance(left, Aggregate) or left.without or left.op not in FOLDS:
        return False
    grouping, named = set(left.grouping), set(matching.labels)
    return grouping <= named if matching.on else grouping.isdisjoint(named)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """A small expression whose axis is to be shared out, with the series that it reads at hand."""

    expr: Expr
    context: Context

    @classmethod
    def of(cls, context: Context, expr: Expr) -> Stretches | None:
        """None if it does not pay."""
        options, shared = context.options, context.options.shared
        if options.workers < 2 or context.steps < LEAST_STEPS * options.workers:
            return None
        if context.rows is not None or not is_small(expr):
            return None
        nodes = list(walk(expr))
        # What has memory goes through time in order, here.
        if shape_of(expr).remembers:
            return None
        # info() reads what no selector names.
        if any(isinstance(one, Subquery) or getattr(one, "func", "") == "info" for one in nodes):
            return None
        # What is shared with other expressions is computed once, for the whole axis.
        if shared is not None and len(shared.trees) > 1 and any(map(shared.has, nodes)):
            return None
        # Read before there is any fork: what reads may have threads, and they stay behind.
        read = _AtHand.of(context, list(_leaves(nodes)))
        if read.samples_and_steps(context.steps) < options.fork_cells:
            return None
        alone = replace(options, workers=1, shared=Sharing((expr,)))
        return cls(expr, replace(context, queryable=read, options=alone))

    def evaluated(self, processes: int) -> Frame:
        """The value at all times."""
        context = self.context
        stretches = np.array_split(context.times_ms, processes)

        def one(number: int) -> tuple[Frame, Annotations]:
            notes = Annotations(context.options.source)
            stretch = replace(context, times_ms=stretches[number], notes=notes)
            return stretch.frame(self.expr), notes

        found = list(computed(one, range(processes)))
        for _, notes in found:
            context.notes.add(notes)
        return _joined([frame for frame, _ in found])


def _leaves(nodes: Sequence[Expr]) -> Iterator[Leaf]:
    """The selectors, with their ranges where they have one."""
    inside = {id(node.selector) for node in nodes if isinstance(node, MatrixSelector)}
    for node in nodes:
        if isinstance(node, MatrixSelector) or (
            isinstance(node, VectorSelector) and id(node) not in inside
        ):
            yield node


class _AtHand:
    """A Queryable of what some selectors read, each in its reach."""

    def __init__(self) -> None:
        self._found: dict[object, tuple[int, int, list[Series]]] = {}

    @classmethod
    def of(cls, context: Context, leaves: Sequence[Leaf]) -> _AtHand:
        """Read what the selectors look at, at all of the context's times."""
        read = cls()
        for leaf in leaves:
            reach = reach_of(context, leaf)
            if reach is None:
                continue
            selector = leaf if isinstance(leaf, VectorSelector) else leaf.selector
            key = matcher_key(selector.matchers)
            first, last, _ = read._found.get(key, (*reach, []))
            first, last = min(first, reach[0]), max(last, reach[1])
            series = context.queryable.select(selector.matchers, first, last)
            read._found[key] = (first, last, series)
        return read

    def samples_and_steps(self, steps: int) -> int:
        """About how many cells an evaluation goes through."""
        return sum(
            max(steps, one.timestamps_ms.size)
            for _, _, series in self._found.values()
            for one in series
        )

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        _, _, series = self._found[matcher_key(matchers)]
        return cut(series, start_ms, end_ms)


def _joined(frames: list[Frame]) -> Frame:
    """Stretches one after the other; groups in the order that an aggregate has, by labels."""
    keys = {key for frame in frames for key in zip(frame.drops, frame.labels, strict=True)}
    rows = {key: row for row, key in enumerate(sorted(keys))}
    shape = (len(rows), sum(frame.steps for frame in frames))
    values, present = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    histograms: BoolArray | None = None
    start = 0
    for frame in frames:
        at = [rows[key] for key in zip(frame.drops, frame.labels, strict=True)]
        stop = start + frame.steps
        values[at, start:stop] = frame.values
        present[at, start:stop] = frame.present
        if frame.histograms is not None:
            histograms = np.zeros(shape, dtype=np.bool_) if histograms is None else histograms
            histograms[at, start:stop] = frame.histograms
        start = stop
    return Frame(
        tuple(labels for _, labels in rows),
        values,
        present,
        tuple(drop for drop, _ in rows),
        histograms=histograms,
    )
