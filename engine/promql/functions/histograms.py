"""histogram_quantile and histogram_fraction over classic histograms (series with `le`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME
from engine.promql.frame import Frame
from engine.promql.numbers import parse_float

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.series import BoolArray, Float64Array
    from rules.promql.ast import Call, Expr

BUCKET = "le"
# Relative differences between neighbouring buckets up to this are rounding, not data.
SMALL_DELTA = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """One histogram: `bounds` float64[B], ascending; cumulative `counts` and `present` [B, T]."""

    labels: Labels
    drop: bool
    bounds: Float64Array
    counts: Float64Array
    present: BoolArray


def histogram_quantile(context: Context, call: Call) -> Partial:
    """The φ-quantile, linear within a bucket (promql/quantile.go, BucketQuantile).

    No +Inf bucket, fewer than two buckets, or no observations: NaN. φ < 0: -Inf; φ > 1: +Inf.
    Counts that fall from one bucket to the next are raised, with an info.
    """
    quantiles = context.scalar(call.args[0])
    histograms = _collect(context, call.args[1])
    every = np.ones((1, context.steps), dtype=np.bool_)
    context.notes.check_quantiles(quantiles, every, call.args[0].span)
    rows = []
    for one in histograms:
        values, forced = _quantiles(one, quantiles)
        rows.append(values)
        if forced:
            name = one.labels.get(METRIC_NAME) if context.options.delayed_name_removal else ""
            context.notes.forced_monotonicity(name, call.args[1].span)
    return context.drop_names(_assembled(histograms, rows, context.steps), call.span)


def histogram_fraction(context: Context, call: Call) -> Partial:
    """The share of observations between two bounds, linear within a bucket."""
    lower, upper = context.scalar(call.args[0]), context.scalar(call.args[1])
    histograms = _collect(context, call.args[2])
    rows = [_fractions(one, lower, upper) for one in histograms]
    return context.drop_names(_assembled(histograms, rows, context.steps), call.span)


def _assembled(histograms: list[Buckets], rows: list[Float64Array], steps: int) -> Frame:
    if not rows:
        return Frame.empty(steps)
    return Frame(
        tuple(one.labels for one in histograms),
        np.stack(rows),
        np.stack([one.present.any(axis=0) for one in histograms]),
        tuple(one.drop for one in histograms),
    )


def _collect(context: Context, expr: Expr) -> list[Buckets]:
    """The histograms of a vector: its rows grouped by all labels but `le`."""
    frame = context.frame(expr).without_absent()
    groups: dict[Labels, list[tuple[float, int]]] = {}
    for row, labels in enumerate(frame.labels):
        text = labels.get(BUCKET)
        bound = parse_float(text)
        if bound is None:
            context.notes.bad_bucket(labels.get(METRIC_NAME), text, expr.span)
            continue
        groups.setdefault(labels.without(BUCKET), []).append((bound, row))
    histograms = []
    for labels, members in groups.items():
        members.sort()
        rows = [row for _, row in members]
        histograms.append(
            Buckets(
                labels,
                any(frame.drops[row] for row in rows),
                np.array([bound for bound, _ in members]),
                np.where(frame.present[rows], frame.values[rows], 0.0),
                frame.present[rows],
            )
        )
    return histograms


def _coalesced(one: Buckets) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Bounds, counts and presence with equal bounds ("1" and "1.0") added up."""
    bounds, starts = np.unique(one.bounds, return_index=True)
    if bounds.size == one.bounds.size:
        return one.bounds, one.counts, one.present
    counts = np.add.reduceat(one.counts, starts, axis=0)
    return bounds, counts, np.logical_or.reduceat(one.present, starts, axis=0)


def _quantiles(one: Buckets, quantiles: Float64Array) -> tuple[Float64Array, bool]:
    """φ-quantiles at each step, [T], and whether any count had to be raised."""
    bounds, counts, present = _coalesced(one)
    usable = present[-1] & (quantiles >= 0) & (quantiles <= 1) & math.isinf(bounds[-1])
    usable &= bounds[-1] > 0
    counts, forced = _monotonic(counts, present)
    total = counts[-1]
    usable &= (present.sum(axis=0) >= 2) & (total != 0)
    rank = quantiles * total
    steps = np.arange(quantiles.size)
    # The first present bucket, below the last, whose count reaches the rank; else the last.
    reached = present[:-1] & (counts[:-1] >= rank)
    none = ~reached.any(axis=0) if len(bounds) > 1 else np.ones(quantiles.size, np.bool_)
    at = reached.argmax(axis=0) if len(bounds) > 1 else np.zeros(quantiles.size, np.intp)
    before = _previous(present)
    below = before[at, steps]
    first = below < 0
    start = np.where(first, 0.0, bounds[below])
    under = np.where(first, 0.0, counts[below, steps])
    inside = start + (bounds[at] - start) * ((rank - under) / (counts[at, steps] - under))
    found = np.where(first & (bounds[at] <= 0), bounds[at], inside)
    found = np.where(none, bounds[before[-1]], found)
    found = np.where(usable, found, np.nan)
    found = np.where(quantiles < 0, -np.inf, np.where(quantiles > 1, np.inf, found))
    return found, bool((forced & usable).any())


def _previous(present: BoolArray) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """For each bucket and step, [B, T], the number of the present bucket below, -1 if none."""
    numbers = np.where(present, np.arange(len(present))[:, None], -1)
    highest = np.maximum.accumulate(numbers, axis=0)
    return np.concatenate([np.full((1, present.shape[1]), -1), highest[:-1]])


def _monotonic(counts: Float64Array, present: BoolArray) -> tuple[Float64Array, BoolArray]:
    """Counts that never fall, and the steps, [T], at which one was raised beyond rounding.

    Between present buckets only; an absent one just carries the count below it.
    """
    counts = counts.copy()
    forced = np.zeros(counts.shape[1], dtype=np.bool_)
    seen = present[0].copy()
    previous = counts[0].copy()
    for number in range(1, len(counts)):
        current, here = counts[number], present[number]
        compare = here & seen
        close = np.abs(current - previous) <= SMALL_DELTA * _smallest_scale(current, previous)
        falls = compare & ~close & (current < previous)
        forced |= falls
        counts[number] = np.where(falls | (compare & close) | ~here, previous, current)
        previous = np.where(here | seen, counts[number], previous)
        seen |= here
    return counts, forced


def _smallest_scale(one: Float64Array, other: Float64Array) -> Float64Array:
    scale: Float64Array = np.minimum(np.abs(one) + np.abs(other), np.finfo(np.float64).max)
    return scale


def _fractions(one: Buckets, lower: Float64Array, upper: Float64Array) -> Float64Array:
    """The share of observations in (lower, upper], [T]."""
    bounds, counts, present = _coalesced(one)
    complete = present[-1] & (bounds[-1] == np.inf)
    total = counts[-1]
    share = (_rank(bounds, counts, present, upper) - _rank(bounds, counts, present, lower)) / total
    share = np.where(lower >= upper, 0.0, share)
    unknown = ~complete | (total == 0) | np.isnan(lower) | np.isnan(upper)
    return np.where(unknown, np.nan, share)


def _rank(
    bounds: Float64Array, counts: Float64Array, present: BoolArray, limit: Float64Array
) -> Float64Array:
    """How many observations lie at or below a limit, [T]."""
    rank = np.zeros(limit.size)
    done = np.zeros(limit.size, dtype=np.bool_)
    start = np.full(limit.size, -np.inf if bounds[0] <= 0 else 0.0)
    under = np.zeros(limit.size)
    for number, bound in enumerate(bounds):
        here = present[number] & ~done
        inside = np.where(
            np.isinf(start) | math.isinf(bound),
            under if math.isinf(bound) else counts[number],
            under + (counts[number] - under) * ((limit - start) / (bound - start)),
        )
        stops = here & (limit <= bound)
        rank = np.where(stops, np.where(limit <= start, under, inside), rank)
        rank = np.where(here & ~stops, counts[number], rank)
        done |= stops
        start = np.where(here, bound, start)
        under = np.where(here, counts[number], under)
    return np.where(np.isposinf(limit), counts[-1], rank)
