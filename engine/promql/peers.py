"""Aggregators that hold each element against the others of its group, and keep its labels.

S series, T steps. What an element is compared with never contains the element itself, so that it
cannot hide itself, be the group of three or of three thousand. Every element is judged at every
step by itself: that it is slow for long is asked by a subquery over the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.finite import scores
from engine.promql.functions.zscores import MAD_OF_NORMAL
from engine.promql.grouping import Groups
from engine.promql.natives import for_aggregator
from rules.promql.parameters import LEAST_GROUP
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.promql.bounds import IndexArray
    from engine.promql.context import Context, Partial
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Aggregate

# Of two, nobody knows which one is the odd one out.
# Peers that differ by this share of their median are alike, however narrow their spread.
ALIKE = 0.05
# Cells of [group, series, step] at once: 4 MiB of each of a dozen arrays.
CELLS = 2**19


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """Each element's peers: the others of its group. [G, W, T], W series in each of G groups.

    `values`: the element itself; `lower`, `median`, `upper`: the quartiles of the others, linear
    between ranks; `slowest`: [G, 1, T], the largest of the whole group.
    """

    values: Float64Array
    lower: Float64Array
    median: Float64Array
    upper: Float64Array
    slowest: Float64Array

    @classmethod
    def of(cls, values: Float64Array, present: BoolArray) -> Others:
        """The peers of elements; where fewer than two others are present they mean nothing."""
        keyed = np.where(present, values, np.inf)
        order = np.argsort(keyed, axis=1, kind="stable")
        ordered = np.take_along_axis(keyed, order, axis=1)
        place = np.argsort(order, axis=1, kind="stable")
        number = present.sum(axis=1, keepdims=True)

        def at(rank: IndexArray) -> Float64Array:
            """The others' value with this rank, which the element itself may stand before."""
            index = np.minimum(rank + (place <= rank), ordered.shape[1] - 1)
            found: Float64Array = np.take_along_axis(ordered, index, axis=1)
            return found

        def quantile(level: float) -> Float64Array:
            position = level * np.maximum(number - 2, 0)
            low = np.floor(position).astype(np.intp)
            below = at(low)
            above = at(np.minimum(low + 1, np.maximum(number - 2, 0)))
            between: Float64Array = below + (above - below) * (position - low)
            return between

        slowest = np.take_along_axis(ordered, np.maximum(number - 1, 0), axis=1)
        return cls(values, quantile(0.25), quantile(0.5), quantile(0.75), slowest)


Judgement: TypeAlias = "Callable[[Others], Float64Array]"


def straggler_score(others: Others) -> Float64Array:
    """How unlike its peers an element is: above 0 for the slow ones, below 0 for the fast ones.

    **Formula.** `straggler_score by (task_id) (step_time_seconds)`: with the median m and the
    quartiles q₁ and q₃ of the *other* elements of the group, `(v - m) / s`. For v above m
    `s = max((q₃ - m) / 0.6745, 0.05 |m|)`, for v below m `s = max((m - q₁) / 0.6745, 0.05 |m|)`:
    the slow tail is measured by itself and so is the fast one, and peers within 5 % count as alike.
    So a score above 3 is at least 15 % slower, and farther out than three robust standard
    deviations. 0 if v = m; ±Inf if m = 0 and nothing is spread.

    **Source.** A robust z-score with a spread for either side (P. Rosenmai's double MAD, with
    quartiles), leaving out what is judged.

    **Warm-up.** None in time. A group of at least 3 elements, or of as many as a first argument
    says: `straggler_score by (task_id) (8, v)`.

    **Cost.** One sort of each group at each step, n log n.

    **Absent.** Elements of smaller groups; NaN and infinities, which are nobody's peers. A least
    size below 3 is an error.
    """
    away = others.values - others.median
    spread = np.where(away > 0, others.upper - others.median, others.median - others.lower)
    return scores(away, np.maximum(spread / MAD_OF_NORMAL, ALIKE * np.abs(others.median)))


def straggler_slowdown(others: Others) -> Float64Array:
    """How many times as long as its peers an element takes: 1.3 is 30 % longer.

    **Formula.** `v / m`, with the median m of the other elements of the group. 1 if both are 0.

    **Source.** The slowdown of a worker as in J. Lin et al., *Understanding Stragglers in Large
    Model Training Using What-if Analysis*, 2025, against the median of its peers.

    **Warm-up.** None in time; a group as for `straggler_score`.

    **Cost.** As `straggler_score`.

    **Absent.** As `straggler_score`.
    """
    return np.where(others.values == others.median, 1.0, others.values / others.median)


def straggler_cost(others: Others) -> Float64Array:
    """What share of the group's step an element costs, from 0 to 1, if the group waits for all.

    **Formula.** `max(0, v - m) / max(all)`: the group's step takes as long as its slowest element,
    and m, the median of the others, is what this one would take if it were like them. Shares of two
    stragglers that run side by side do not add up. 0 if the slowest takes no time.

    **Source.** The what-if analysis of Lin et al., as above.

    **Warm-up.** None in time; a group as for `straggler_score`.

    **Cost.** As `straggler_score`.

    **Absent.** As `straggler_score`. Values below 0 make no sense here.
    """
    excess = np.maximum(others.values - others.median, 0.0)
    return np.where(others.slowest > 0, excess / others.slowest, 0.0)


PEERS: Mapping[str, Judgement] = {
    "straggler_cost": straggler_cost,
    "straggler_score": straggler_score,
    "straggler_slowdown": straggler_slowdown,
}


def compared(context: Context, node: Aggregate) -> Partial:
    """Any of them."""
    least = _least(context, node)
    frame = for_aggregator(context, node, context.frame(node.expr))
    usable = frame.present & np.isfinite(frame.values)
    values, kept = np.zeros(usable.shape), np.zeros(usable.shape, dtype=np.bool_)
    for rows, steps in _parts(Groups.of(frame.labels, node), frame.steps):
        present = usable[:, steps][rows]
        found = PEERS[node.op](Others.of(frame.values[:, steps][rows], present))
        enough = present.sum(axis=1, keepdims=True) >= least[steps]
        values[:, steps][rows] = found
        kept[:, steps][rows] = present & enough
    judged = frame.with_values(np.where(kept, values, 0.0), kept).without_absent()
    return context.drop_names(judged, node.span)


def _parts(groups: Groups, steps: int) -> Iterator[tuple[IndexArray, slice]]:
    """The rows of groups of one size, [G, W], and the steps to look at, few enough at once."""
    for _, rows in groups.by_size():
        width = min(steps, max(1, CELLS // rows.shape[1]))
        height = max(1, CELLS // max(1, rows.shape[1] * width))
        for first in range(0, rows.shape[0], height):
            for start in range(0, steps, max(1, width)):
                yield rows[first : first + height], slice(start, start + width)


def _least(context: Context, node: Aggregate) -> Float64Array:
    """The fewest elements that are a group, [T]."""
    if node.param is None:
        return np.full(context.steps, float(LEAST_GROUP))
    least = context.scalar(node.param)
    bad = least[~(least >= LEAST_GROUP)]
    broken = least[~np.isfinite(least) | (least != np.floor(least))]
    if broken.size and not bad.size:
        raise EvaluationError(
            f"{node.op} needs groups of a whole number of elements, not of {broken[0]:g}",
            node.param.span,
        )
    if bad.size:
        raise EvaluationError(
            f"{node.op} needs groups of {LEAST_GROUP} elements at least, not of {bad[0]:g}: of two "
            "nobody knows which one is the odd one out",
            node.param.span,
        )
    return least
