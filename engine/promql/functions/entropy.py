"""Entropy: over how many values a window is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.finite import Few, by_window, in_order

if TYPE_CHECKING:
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array


def entropy_over_time(block: Block) -> Folded:
    """The entropy, in bits, of how often each value occurs in a window.

    **Formula.** `-Σ pᵥ log₂ pᵥ` over the distinct values v, pᵥ the share of samples that are v. 0
    for a constant, log₂ n if all n samples differ. What varies in every digit is rounded first:
    `entropy_over_time(round(x, 0.1)[1h:])`.

    **Source.** C. Shannon, *A Mathematical Theory of Communication*, 1948;
    `scipy.stats.entropy(counts, base=2)`.

    **Warm-up.** 2 samples.

    **Cost.** One sort of each window, n log n.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them.
    """
    return by_window(block, 2, _entropy)


def _entropy(few: Few) -> Float64Array:
    ordered = np.where(few.exists, few.values, np.inf)
    ordered.sort(axis=1)
    places = np.arange(ordered.shape[1])
    begins = np.ones(ordered.shape, dtype=np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    begins[places >= few.counts[:, None]] = False
    # The length of each run of equals, told at its last sample.
    since = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    ends = np.zeros(ordered.shape, dtype=np.bool_)
    ends[:, :-1] = begins[:, 1:]
    ends[np.arange(few.counts.size), few.counts - 1] = True
    runs = np.where(ends, places - since + 1, 1).astype(np.float64)
    number = few.counts.astype(np.float64)
    # No subtraction of sums: of a constant nothing is left.
    each = np.where(ends, runs * (np.log2(number)[:, None] - np.log2(runs)), 0.0)
    return in_order(each) / number
