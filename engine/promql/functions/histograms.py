"""histogram_quantile and histogram_fraction over classic histograms (series with `le`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME
from engine.promql.annotations import Monotonicity
from engine.promql.errors import NeedsNativeHistograms
from engine.promql.frame import Frame
from engine.promql.numbers import format_open_metrics, parse_float
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from engine.labels import Labels
    from engine.promql.context import Context, Partial
    from engine.series import BoolArray, Float64Array, Int64Array
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


@dataclass(frozen=True, slots=True, eq=False)
class Raised:
    """Counts that were raised: `where` bool[B, T], `differences` float64[B, T], `bounds` [B]."""

    bounds: Float64Array
    where: BoolArray
    differences: Float64Array

    def over(self, times_ms: Int64Array) -> Monotonicity:
        """What an annotation tells of it."""
        bounds = self.bounds[self.where.any(axis=1)]
        times = times_ms[self.where.any(axis=0)]
        return Monotonicity(
            float(bounds[0]),
            float(bounds[-1]),
            float(self.differences[self.where].max()),
            int(times.size),
            int(times.min()),
            int(times.max()),
        )


def histogram_quantile(context: Context, call: Call) -> Partial:
    """The φ-quantile, linear within a bucket (promql/quantile.go, BucketQuantile).

    No +Inf bucket, fewer than two buckets, or no observations: NaN. φ < 0: -Inf; φ > 1: +Inf.
    Counts that fall from one bucket to the next are raised, with an info.
    """
    quantiles = _checked_quantiles(context, call.args[0])
    histograms = _collect(context, call.args[1])
    rows = _quantile_rows(context, histograms, quantiles, call.args[1])
    return context.drop_names(_assembled(histograms, rows, context.steps), call.span)


def histogram_quantiles(context: Context, call: Call) -> Partial:
    """`histogram_quantile` for several φ, which argument 1 names the label for."""
    name = context.string(call.args[1])
    every = [_checked_quantiles(context, arg) for arg in call.args[2:]]
    histograms = _collect(context, call.args[0])
    parts = []
    for quantiles in every:
        rows = _quantile_rows(context, histograms, quantiles, call.args[0])
        frame = _assembled(histograms, rows, context.steps)
        # Each step's φ is a series of its own.
        for value in np.unique(quantiles).tolist():
            equal = np.isnan(quantiles) if math.isnan(value) else quantiles == value
            text = format_open_metrics(value)
            labels = tuple(own.merged({name: text}) for own in frame.labels)
            parts.append(replace(frame.only_where(equal), labels=labels))
    whole = Frame.stacked(parts) if parts else Frame.empty(context.steps)
    return context.drop_names(whole, call.span).merged(call.span)


def _checked_quantiles(context: Context, arg: Expr) -> Float64Array:
    """A scalar argument, with a warning for what is outside [0, 1]."""
    quantiles = context.scalar(arg)
    every = np.ones((1, context.steps), dtype=np.bool_)
    context.notes.check_quantiles(quantiles, every, arg.span)
    return quantiles


def _quantile_rows(
    context: Context, histograms: list[Buckets], quantiles: Float64Array, arg: Expr
) -> list[Float64Array]:
    rows = []
    for one in histograms:
        values, raised = _quantiles(one, quantiles)
        rows.append(values)
        if raised is not None:
            name = one.labels.get(METRIC_NAME) if context.options.delayed_name_removal else ""
            context.notes.forced_monotonicity(name, raised.over(context.times_ms), arg.span)
    return rows


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
    """The histograms of a vector: its rows grouped by all labels but `le`.

    Raises NeedsNativeHistograms for a native one, unless the same is there as a classic one too:
    then neither counts at that step, with a warning.
    """
    whole = context.frame(expr).without_absent()
    frame, native = whole.without_histograms(), whole.native()
    groups: dict[Labels, list[tuple[float, int]]] = {}
    for row, labels in enumerate(frame.labels):
        text = labels.get(BUCKET)
        bound = parse_float(text)
        if bound is None:
            if frame.present[row].any():
                context.notes.bad_bucket(labels.get(METRIC_NAME), text, expr.span)
            continue
        groups.setdefault(labels.without(BUCKET), []).append((bound, row))
    histograms = []
    for labels, members in groups.items():
        members.sort()
        rows = [row for _, row in members]
        present = frame.present[rows]
        if native is not None:
            present = present & ~_clashing(context, whole, native, labels, present, expr)
        histograms.append(
            Buckets(
                labels,
                any(frame.drops[row] for row in rows),
                np.array([bound for bound, _ in members]),
                np.where(present, frame.values[rows], 0.0),
                present,
            )
        )
    if native is not None and native.any():
        raise NeedsNativeHistograms("this function of histograms", expr.span)
    return histograms


def _clashing(
    context: Context,
    whole: Frame,
    native: BoolArray,
    labels: Labels,
    classic: BoolArray,
    expr: Expr,
) -> BoolArray:
    """The steps, [T], at which a classic histogram is a native one too; `native` loses those."""
    clashes = np.zeros(whole.steps, dtype=np.bool_)
    for row in np.flatnonzero(native.any(axis=1)).tolist():
        if whole.labels[row].without(BUCKET) == labels:
            both = native[row] & classic.any(axis=0)
            if both.any():
                context.notes.mixed_classic_and_native(labels.get(METRIC_NAME), expr.span)
            native[row] &= ~both
            clashes |= both
    return clashes


def _coalesced(one: Buckets) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Bounds, counts and presence with equal bounds ("1" and "1.0") added up."""
    bounds, starts = np.unique(one.bounds, return_index=True)
    if bounds.size == one.bounds.size:
        return one.bounds, one.counts, one.present
    counts = np.add.reduceat(one.counts, starts, axis=0)
    return bounds, counts, np.logical_or.reduceat(one.present, starts, axis=0)


def _quantiles(one: Buckets, quantiles: Float64Array) -> tuple[Float64Array, Raised | None]:
    """φ-quantiles at each step, [T], and which counts had to be raised, if any."""
    bounds, counts, present = _coalesced(one)
    usable = present[-1] & (quantiles >= 0) & (quantiles <= 1) & math.isinf(bounds[-1])
    usable &= bounds[-1] > 0
    counts, raised, differences = _monotonic(counts, present)
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
    raised &= usable
    return found, Raised(bounds, raised, differences) if raised.any() else None


def _previous(present: BoolArray) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """For each bucket and step, [B, T], the number of the present bucket below, -1 if none."""
    numbers = np.where(present, np.arange(len(present))[:, None], -1)
    highest = np.maximum.accumulate(numbers, axis=0)
    return np.concatenate([np.full((1, present.shape[1]), -1), highest[:-1]])


def _monotonic(
    counts: Float64Array, present: BoolArray
) -> tuple[Float64Array, BoolArray, Float64Array]:
    """Counts that never fall, which were raised beyond rounding, and by how much, all [B, T].

    Between present buckets only; an absent one just carries the count below it.
    """
    counts = counts.copy()
    raised = np.zeros(counts.shape, dtype=np.bool_)
    differences = np.zeros(counts.shape)
    seen = present[0].copy()
    previous = counts[0].copy()
    for number in range(1, len(counts)):
        current, here = counts[number], present[number]
        compare = here & seen
        close = np.abs(current - previous) <= SMALL_DELTA * _smallest_scale(current, previous)
        falls = compare & ~close & (current < previous)
        raised[number] = falls
        differences[number] = np.where(falls, previous - current, 0.0)
        counts[number] = np.where(falls | (compare & close) | ~here, previous, current)
        previous = np.where(here | seen, counts[number], previous)
        seen |= here
    return counts, raised, differences


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
