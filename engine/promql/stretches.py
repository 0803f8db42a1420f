"""Aggregates over a long axis, computed for one stretch of time here and for others in forks.

An aggregate is small and what it is made of is large: where rows are shared out (blocks.py) all of
them have to come back, where time is, only the groups do. No result depends on how time is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.annotations import Annotations
from engine.promql.blocks import cells_of, plan
from engine.promql.forks import computed
from engine.promql.frame import Frame
from engine.promql.selection import reach_of, rows_of
from rules.promql.walk import selectors
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.context import Context
    from engine.promql.rows import Rows
    from engine.series import BoolArray
    from rules.promql.ast import Aggregate, MatrixSelector, VectorSelector

# Shorter stretches cost more in forks than they save.
LEAST_STEPS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """An aggregate whose axis is to be shared out, with the series that it reads at hand."""

    context: Context
    leaf: VectorSelector | MatrixSelector
    rows: Rows

    @classmethod
    def of(cls, context: Context, node: Aggregate) -> Stretches | None:
        """None if it does not pay, or if more than one selector is read."""
        options = context.options
        if options.workers < 2 or context.steps < LEAST_STEPS * options.workers:
            return None
        how = plan(node.expr)
        if how is None or how.nesting or sum(1 for _ in selectors(node)) != 1:
            return None
        shared = options.shared
        # What is shared with other expressions is computed once, for the whole axis.
        if shared is not None and any(map(shared.has, (node.expr, *how.within))):
            return None
        # Read before there is any fork: what reads may have threads, and they stay behind.
        rows = rows_of(context, how.leaf)
        return (
            cls(context, how.leaf, rows) if cells_of(context, rows) >= options.fork_cells else None
        )

    def aggregated(self, evaluate: Callable[[Context], Frame]) -> Frame:
        """The aggregate at all times; `evaluate` computes it for some of them."""
        context = self.context
        stretches = np.array_split(context.times_ms, context.options.workers)
        alone = replace(context.options, workers=1, shared=None)

        def one(number: int) -> tuple[Frame, Annotations]:
            notes = Annotations(alone.source)
            inner = replace(context, times_ms=stretches[number], options=alone, notes=notes)
            reach = reach_of(inner, self.leaf)
            rows = self.rows if reach is None else self.rows.within(*reach)
            return evaluate(replace(inner, rows=rows)), notes

        found = list(computed(one, range(len(stretches))))
        for _, notes in found:
            context.notes.add(notes)
        return _joined([frame for frame, _ in found])


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
