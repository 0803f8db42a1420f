"""Whether two windows have the same distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.bounds import Edges
from engine.promql.cells import GATHERED, gathered
from engine.promql.errors import EvaluationError
from engine.promql.finite import usable
from engine.promql.frame import Frame
from engine.promql.functions.native_windows import settle
from engine.promql.functions.shapes import windows_of
from engine.promql.naming import unnamed
from engine.promql.windows import Block
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.labels import Labels
    from engine.promql.bounds import IndexArray
    from engine.promql.context import Context, Partial
    from engine.promql.functions.shapes import Implementation
    from engine.promql.windows import Windows
    from engine.series import Float64Array
    from rules.promql.ast import Call

LEAST = 5


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """Of C pairs of windows: D, and how many samples the two of each have."""

    distance: Float64Array
    first: Float64Array
    second: Float64Array


def distribution_shift(shift: Shift) -> Float64Array:
    """How far apart the distributions of two windows are, from 0 to 1.

    **Formula.** `distribution_shift(x[5m], x[1h] offset 5m)`: the Kolmogorov-Smirnov statistic
    `D = sup |F₁(v) - F₂(v)|` of the two empirical distributions. Series are matched by all of their
    labels but the name.

    **Source.** `scipy.stats.ks_2samp`.

    **Warm-up.** 5 samples in each window.

    **Cost.** One sort of both windows together, n log n.

    **Absent.** Where one of the two has fewer samples, or NaN or an infinity in it, or there is no
    such series on the other side. Two series on one side that differ in their names only are an
    error.
    """
    return shift.distance


def distribution_shift_pvalue(shift: Shift) -> Float64Array:
    """How likely two windows as different as these are, if both had one distribution.

    **Formula.** The two-sided Kolmogorov-Smirnov test of `distribution_shift`, by the exact
    distribution of D for `n₁ n₂ / (n₁ + n₂)` samples, rounded. Neighbours are taken to be
    independent.

    **Source.** `scipy.stats.ks_2samp(…, method="asymp")`.

    **Warm-up.** 5 samples in each window.

    **Cost.** As `distribution_shift`, and some microseconds for each result.

    **Absent.** As `distribution_shift`.
    """
    from scipy.stats import kstwo

    product = shift.first * shift.second / (shift.first + shift.second)
    found: Float64Array = np.clip(kstwo.sf(shift.distance, np.round(product)), 0.0, 1.0)
    return found


def over_two_windows(statistic: Callable[[Shift], Float64Array]) -> Implementation:
    """A function of two range vectors, series by series."""

    def implementation(context: Context, call: Call) -> Partial:
        one, other = (windows_of(context, arg) for arg in call.args)
        for arg, side in zip(call.args, (one, other), strict=True):
            settle(context, call.func, arg, side, Frame.empty(context.steps))
        left, right = _rows(one, call), _rows(other, call)
        pairs = [(row, right[key]) for key, row in left.items() if key in right]
        context.require(len(pairs) * context.steps, call.span)
        values = np.zeros((len(pairs), context.steps))
        present = np.zeros(values.shape, dtype=np.bool_)
        ours, theirs = _blocks(one), _blocks(other)
        for place, (row, partner) in enumerate(pairs):
            if row in ours and partner in theirs:
                cells, shift = _shift(ours[row], theirs[partner])
                values[place, cells], present[place, cells] = statistic(shift), True
        labels = tuple(one.labels[row] for row, _ in pairs)
        frame = Frame(labels, values, present, tuple(one.drops[row] for row, _ in pairs))
        return context.drop_names(frame, call.span)

    implementation.__doc__ = statistic.__doc__
    return implementation


def _rows(side: Windows, call: Call) -> dict[Labels, int]:
    found: dict[Labels, int] = {}
    for row, labels in enumerate(side.labels):
        if found.setdefault(unnamed(labels), row) != row:
            raise EvaluationError(
                f"{call.func} found two series {unnamed(labels)} on one side", call.span
            )
    return found


def _blocks(side: Windows) -> dict[int, Block]:
    """Each row that has samples, as a block of its own."""
    edges = Edges.of(side.end_ms, side.range_ms)
    found = {}
    for group in side.groups:
        if group.timestamps_ms.size:
            bounds = side.cache.bounds(group.timestamps_ms, edges)
            for place, row in enumerate(group.rows.tolist()):
                found[row] = Block(bounds, group.values[place : place + 1], side.times_ms)
    return found


def _shift(one: Block, other: Block) -> tuple[IndexArray, Shift]:
    """The steps at which both windows are usable, and how they differ there."""
    cells = np.flatnonzero(usable(one, LEAST) & usable(other, LEAST))
    first, second = (block.bounds.counts[cells] for block in (one, other))
    distance = np.empty(cells.size)
    at_once = max(1, GATHERED // max(1, one.bounds.most + other.bounds.most))
    for start in range(0, cells.size, at_once):
        some = slice(start, start + at_once)
        (left,), (right,) = (list(gathered(block, cells[some], np.inf)) for block in (one, other))
        distance[some] = _distance(left.values, right.values, first[some], second[some])
    return cells, Shift(distance, first, second)


def _distance(
    one: Float64Array, other: Float64Array, first: Float64Array, second: Float64Array
) -> Float64Array:
    """D of windows, [C, W] each, of so many samples and then +Inf."""
    both = np.concatenate([one, other], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=1)
    ours = (order < one.shape[1]) & (ordered < np.inf)
    theirs = (order >= one.shape[1]) & (ordered < np.inf)
    apart = np.abs(
        np.cumsum(ours, axis=1) / first[:, None] - np.cumsum(theirs, axis=1) / second[:, None]
    )
    # Among equals the distributions are compared after the last one.
    apart[:, :-1][ordered[:, 1:] == ordered[:, :-1]] = 0.0
    distance: Float64Array = apart.max(axis=1)
    return distance
