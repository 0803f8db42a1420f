"""Exponentially weighted averages: what was lately weighs most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import InvalidParameter
from engine.promql.finite import Few, by_window, in_order, scores
from rules.slotted import replace

if TYPE_CHECKING:
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array


def ewma_over_time(block: Block) -> Folded:
    """The exponentially weighted mean of a window: `ewma_over_time(x[1h], 5m)`.

    **Formula.** `Σ wᵢ xᵢ / Σ wᵢ` with `wᵢ = 2^(-ageᵢ / h)`: the second argument is the half-life h
    in seconds (a duration is a number of seconds), and a sample's age is counted from the newest
    sample, so that samples may be irregular and missing.

    **Source.** `pandas.Series.ewm(halflife=…, times=…).mean()`.

    **Warm-up.** 1 sample.

    **Cost.** Linear in the window: n exponentials.

    **Absent.** Windows without a sample, or with NaN or an infinity in them. A half-life that is
    not positive is an error.
    """
    halflife = _halflife(block)
    return by_window(block, 1, lambda few: few.unscaled(_moments(few, halflife)[0]))


def ewma_zscore(block: Block) -> Folded:
    """How unusual the newest sample is after the exponentially weighted ones before it.

    **Formula.** `(newest - m) / s` for `ewma_zscore(x[1h], 5m)`: m is the weighted mean, as in
    `ewma_over_time`, and s² = `Σ wᵢ (xᵢ - m)² / Σ wᵢ` the weighted variance of all samples but the
    newest. It is left out, since it would weigh most and bound its own score. 0 for a constant;
    ±Inf where a constant ends.

    **Source.** `pandas.Series.ewm(halflife=…, times=…)`, `.mean()` and `.var(bias=True)`.

    **Warm-up.** 5 samples.

    **Cost.** Linear in the window: n exponentials.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them. A half-life that is
    not positive is an error.
    """
    halflife = _halflife(block)

    def statistic(few: Few) -> Float64Array:
        before = replace(few, counts=few.counts - 1)
        mean, variance = _moments(before, halflife)
        return scores(few.newest - mean, np.sqrt(variance))

    return by_window(block, 5, statistic)


def _halflife(block: Block) -> Float64Array:
    (halflife,) = block.params
    bad = halflife[~(halflife > 0)]
    if bad.size:
        raise InvalidParameter(f"invalid half-life. Expected: more than 0 seconds, got: {bad[0]:g}")
    return halflife


def _moments(few: Few, halflife: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Weighted means and variances, [C]; ages are counted from the newest that exists."""
    exists, rows = few.exists, np.arange(few.counts.size)
    age = few.times_s[rows, few.counts - 1][:, None] - few.times_s
    weights = np.exp2(np.ascontiguousarray(-age / halflife[few.steps][:, None]))
    weights[~exists] = 0.0
    total = in_order(weights)
    # Differences from the newest: of a constant nothing is left.
    pivot = few.newest
    away = few.values - pivot[:, None]
    mean = in_order(weights * away) / total
    away -= mean[:, None]
    variance = in_order(weights * away * away) / total
    return pivot + mean, variance
