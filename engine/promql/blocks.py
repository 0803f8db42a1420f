"""Row-wise expressions, evaluated for a few series at a time.

An expression is row-wise if each row of its result depends on one series only: a selector, a
function of its windows, arithmetic with scalars, a filter. The whole of it is then evaluated for
one block of neighbouring series after another, so that everything in between stays in a core's
cache and a filter's losers are gone before anything is put together. Blocks can be computed by
several processes (engine/promql/forks.py).

No result depends on how the rows are cut.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.promql import selection
from engine.promql.annotations import Annotations
from engine.promql.errors import TOO_MANY_SAMPLES, EvaluationError
from engine.promql.forks import computed
from engine.promql.frame import Frame
from engine.promql.functions.table import ROW_WISE
from engine.promql.naming import unnamed
from engine.promql.subquery import steps_of
from engine.promql.tall import LEVELS, Tree
from rules.promql.ast import (
    Binary,
    Call,
    Expr,
    MatrixSelector,
    Subquery,
    Unary,
    ValueType,
    VectorSelector,
)
from rules.promql.types import type_of
from rules.promql.walk import selectors, unwrapped
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.promql.rows import Rows

# More than a few share a memory bus.
MOST_WORKERS = 4
# How many times as many cells a block has at a single step.
AT_ONE_STEP = 32


def workers_at_hand() -> int:
    """As many as this process may use cores, up to MOST_WORKERS."""
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A row-wise expression and what it reads.

    `leaf`: its one selector, inside the subqueries `nesting`, outermost first. `scalars`: its
    largest scalar parts outside of subqueries, the same for all series. `within`: the vectors that
    it is made of outside of subqueries, from the outside in.
    """

    expr: Expr
    leaf: VectorSelector | MatrixSelector
    nesting: tuple[Subquery, ...]
    scalars: tuple[Expr, ...]
    within: tuple[Expr, ...] = ()


def plan(expr: Expr) -> Plan | None:
    """How to evaluate an expression by blocks; None if it is not row-wise."""
    return _plan(Tree(expr))


@lru_cache(maxsize=4096)
def _plan(tree: Tree) -> Plan | None:
    expr = tree.expr
    nesting: list[Subquery] = []
    scalars: list[Expr] = []
    within: list[Expr] = []
    at: Expr = expr
    for _ in range(LEVELS):
        at = unwrapped(at)
        if not nesting and at is not expr:
            within.append(at)
        if isinstance(at, VectorSelector | MatrixSelector):
            return Plan(expr, at, tuple(nesting), tuple(scalars), tuple(within))
        if isinstance(at, Subquery):
            nesting.append(at)
        operands = _operands(at)
        rows = [one for one in operands if type_of(one) is not ValueType.SCALAR]
        rest = [one for one in operands if type_of(one) is ValueType.SCALAR]
        if len(rows) != 1:
            return None
        if not nesting:
            scalars += rest
        elif any(True for one in rest for _ in selectors(one)):
            # Inside a subquery a scalar is evaluated anew for each block, on that block's series.
            return None
        (at,) = rows
    # A tall tree is evaluated level by level.
    return None


def _operands(node: Expr) -> tuple[Expr, ...]:
    """What a node that could be row-wise is made of; nothing if it is not."""
    match node:
        case Unary(expr=inner) | Subquery(expr=inner):
            return (inner,)
        case Binary(lhs=lhs, rhs=rhs):
            return (lhs, rhs)
        case Call(func=func, args=args) if func in ROW_WISE:
            return args
        case _:
            return ()


def planned(context: Context, expr: Expr) -> Plan | None:
    """The plan to follow here: what is shared with other expressions is a vector to start from."""
    how, shared = plan(expr), context.options.shared
    if how is None or shared is None or not any(map(shared.has, how.within)):
        return how
    return None if is_held(context, how) else how


def is_held(context: Context, how: Plan) -> bool:
    """Whether a shared vector is small enough to be held as a whole."""
    shared = context.options.shared
    return shared is not None and shared.fits(len(_rows(context, how).labels), context.steps)


def _rows(context: Context, how: Plan) -> Rows:
    inner = context
    for query in how.nesting:
        inner = inner.on(steps_of(inner, query))
    return selection.rows_of(inner, how.leaf)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The rows first, first + 1, … of a row-wise expression, before absent ones are dropped."""

    first: int
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """A plan with its series at hand, and `parts()` that compute its rows."""

    context: Context
    plan: Plan
    rows: Rows
    hoisted: Mapping[int, Partial]

    @classmethod
    def of(cls, context: Context, how: Plan) -> Execution:
        """Select the series and compute what they share."""
        hoisted = {id(one): context.evaluate(one) for one in how.scalars}
        return cls(context, how, _rows(context, how), hoisted)

    def parts(self, *, sparse: bool = False) -> Generator[Part, None, None]:
        """All rows, in order, with what they are annotated with; `sparse`: those worth keeping.

        Raises EvaluationError as the first of them in order does.
        """
        count, height = len(self.rows.labels), self._height()
        starts = range(0, count, height) if count else range(1)

        def one(number: int) -> tuple[Part, Annotations]:
            part, notes = self._part(starts[number], height)
            if sparse:
                part = replace(part, frame=_worth_keeping(part.frame, count))
            return part, notes

        processes = self._processes()
        owners = [number % processes for number in range(len(starts))]
        with closing(computed(one, owners)) as found:
            for part, notes in found:
                self.context.notes.add(notes)
                yield part

    def _processes(self) -> int:
        """How many are worth their while."""
        options = self.context.options
        return options.workers if cells_of(self.context, self.rows) >= options.fork_cells else 1

    def _part(self, start: int, height: int) -> tuple[Part, Annotations]:
        notes = Annotations(self.context.options.source)
        context = replace(
            self.context,
            rows=self.rows.between(start, start + height),
            notes=notes,
            dispatch=self._dispatch,
        )
        return Part(start, context.frame(self.plan.expr)), notes

    def _dispatch(self, expr: Expr, context: Context) -> Partial:
        found = self.hoisted.get(id(expr))
        return context.evaluate_node(expr, context) if found is None else found

    def _height(self) -> int:
        """How many series a block has: as many as stay in cache."""
        if not self.context.options.delayed_name_removal and self._names_matter():
            return max(1, len(self.rows.labels))
        width = max(1, self.context.steps, self.rows.longest)
        cells = self.context.options.block_cells
        # At one step a window's samples are hardly looked at, and labels had better stay whole.
        return max(1, (cells * AT_ONE_STEP if self.context.steps == 1 else cells) // width)

    def _names_matter(self) -> bool:
        """Whether rows could become equal when names go: then one row depends on others."""
        labels = self.rows.labels
        return len(set(map(unnamed, labels))) < len(labels)


def cells_of(context: Context, rows: Rows) -> int:
    """How many cells, [series, step or sample], an evaluation of these rows goes through."""
    return len(rows.labels) * max(context.steps, rows.longest)


def _worth_keeping(frame: Frame, rows: int) -> Frame:
    """The rows that are present at some step; all of one step where most of them are.

    A live rule then sees the same tuple of labels as at the last step.
    """
    if frame.steps == 1 and len(frame.labels) == rows:
        alive = int(np.count_nonzero(frame.present))
        if 2 * alive >= rows:
            return frame
    return frame.without_absent()


def stacked(execution: Execution) -> Frame:
    """All rows that are present at some step."""
    context, found, cells = execution.context, [], 0
    with closing(execution.parts(sparse=True)) as parts:
        for part in parts:
            frame = part.frame
            if frame.labels:
                found.append(frame)
            cells += frame.values.size
            if cells > context.options.max_samples:
                raise EvaluationError(TOO_MANY_SAMPLES, execution.plan.leaf.span)
    if not found:
        return Frame.empty(context.steps)
    return found[0] if len(found) == 1 else Frame.stacked(found)


def parts_of(context: Context, expr: Expr) -> tuple[tuple[Labels, ...], Iterable[Part]]:
    """A vector in parts, as they are computed, and the labels of all of its rows in advance.

    Rows that are absent at every step may be among them.
    """
    how = planned(context, expr) if context.options.delayed_name_removal else None
    shared = context.options.shared
    if how is not None and shared is not None and shared.has(expr) and is_held(context, how):
        how = None
    if how is None:
        frame = context.frame(expr)
        return frame.labels, _cut(frame, context.options.block_cells)
    execution = Execution.of(context, how)
    return execution.rows.labels, execution.parts()


def _cut(frame: Frame, cells: int) -> Iterable[Part]:
    """A finished vector in parts that stay in cache while they are worked on."""
    rows, height = len(frame.labels), max(1, cells // max(1, frame.steps))
    if rows <= height or frame.histograms is not None or frame.steps == 1:
        return (Part(0, frame),)
    cuts = (slice(start, start + height) for start in range(0, rows, height))
    return (
        Part(
            cut.start,
            Frame(frame.labels[cut], frame.values[cut], frame.present[cut], frame.drops[cut]),
        )
        for cut in cuts
    )
