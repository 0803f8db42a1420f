"""Trends that outliers do not bend, and how sure they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.finite import Few, by_window, middle_of_sorted, usable
from rules.promql.parameters import MOST_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.promql.bounds import IndexArray
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array

# Pairs at once: 16 MiB.
PAIRS = 2**21


def trend_over_time(block: Block) -> Folded:
    """The slope of a window per second, as its typical pair of samples has it.

    **Formula.** Theil-Sen: the median of `(xⱼ - xᵢ) / (tⱼ - tᵢ)` over all pairs i < j, t in
    seconds. Up to 29 % of the samples may be anything. 0 for a constant.

    **Source.** P. Sen, *Estimates of the Regression Coefficient Based on Kendall's Tau*, 1968;
    `scipy.stats.theilslopes`.

    **Warm-up.** 3 samples.

    **Cost.** n² / 2 slopes and their median. A window of more than 1,000 samples is an error: thin
    it by a subquery, `trend_over_time(x[1d:5m])`.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them.
    """
    _refuse_large(block, "trend_over_time")
    return by_window(block, 3, _slope)


def trend_pvalue_over_time(block: Block) -> Folded:
    """How likely a window that rises or falls as steadily as this one is, if it had no trend.

    **Formula.** Mann-Kendall, two-sided: `S = Σ_{i < j} sgn(xⱼ - xᵢ)`,
    `V = (n (n - 1) (2 n + 5) - Σ t (t - 1) (2 t + 5)) / 18` with t the number of each group of
    equals, `z = (S - sgn S) / √V` and `p = erfc(|z| / √2)`. 1 for a constant. Neighbours are taken
    to be independent.

    **Source.** H. Mann, *Nonparametric Tests Against Trend*, 1945; M. Kendall, *Rank Correlation
    Methods*, 1975.

    **Warm-up.** 8 samples, from which on the normal approximation serves.

    **Cost.** n² / 2 comparisons. A window of more than 1,000 samples is an error, as above.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them.
    """
    _refuse_large(block, "trend_pvalue_over_time")
    return by_window(block, 8, _p_value)


def _refuse_large(block: Block, name: str) -> None:
    widths = np.broadcast_to(block.widths, block.shape)
    widest = int(widths.max(initial=0, where=usable(block, 1)))
    if widest > MOST_SAMPLES:
        raise EvaluationError(
            f"{name} looks at pairs of samples, and a window has {widest:,} of them: at most "
            f"{MOST_SAMPLES:,}. Thin it by a subquery, as in {name}(x[1d:5m])"
        )


def _alike(few: Few) -> Iterator[tuple[IndexArray, Float64Array, Float64Array]]:
    """Windows with equally many samples: their numbers, values and times, without fill."""
    for size in np.unique(few.counts).tolist():
        chosen = np.flatnonzero(few.counts == size)
        at_once = max(1, PAIRS // (size * size))
        for start in range(0, chosen.size, at_once):
            some = chosen[start : start + at_once]
            yield some, few.values[some, :size], few.times_s[some, :size]


def _slope(few: Few) -> Float64Array:
    found = np.empty(few.counts.size)
    for some, values, times in _alike(few):
        earlier, later = np.triu_indices(values.shape[1], 1)
        slopes = values[:, later] - values[:, earlier]
        slopes /= times[:, later] - times[:, earlier]
        middle = slopes.shape[1] // 2
        slopes.partition((max(middle - 1, 0), middle), axis=1)
        found[some] = middle_of_sorted(slopes, np.full(some.size, slopes.shape[1]))
    return few.unscaled(found)


def _p_value(few: Few) -> Float64Array:
    from scipy.special import erfc

    found = np.empty(few.counts.size)
    for some, values, _ in _alike(few):
        size = values.shape[1]
        balance = np.zeros(some.size)
        # A sample's equals, itself included: t of a group of t counts t times.
        equals = np.ones(values.shape)
        for apart in range(1, size):
            later, earlier = values[:, apart:], values[:, :-apart]
            balance += np.sign(later - earlier).sum(axis=1)
            same = later == earlier
            equals[:, apart:] += same
            equals[:, :-apart] += same
        tied = ((equals - 1) * (2 * equals + 5)).sum(axis=1)
        variance = (size * (size - 1) * (2 * size + 5) - tied) / 18
        score = (balance - np.sign(balance)) / np.sqrt(np.where(variance > 0, variance, 1.0))
        found[some] = erfc(np.abs(score) / np.sqrt(2.0))
    return found
