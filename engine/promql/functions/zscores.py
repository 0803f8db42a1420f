"""z-scores: how unusual the newest sample of a window is among all of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.finite import Few, by_window, in_order, middle_of_sorted, scores, usable
from engine.promql.functions.over_time import avg_over_time
from engine.promql.moments import variances

if TYPE_CHECKING:
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array

# Φ⁻¹(3/4), what the MAD of a normal distribution is of its standard deviation, and √(π/2), its
# standard deviation over its mean absolute deviation.
MAD_OF_NORMAL = 0.6744897501960817
DEVIATION_OF_NORMAL = 1.2533141373155003


def zscore_over_time(block: Block) -> Folded:
    """How many standard deviations the newest sample is from the mean of its window.

    **Formula.** `(newest - mean) / s`, with the mean and the population's standard deviation s of
    all samples of the window, the newest included; so it is within ±√(n - 1). 0 for a constant.

    **Source.** `scipy.stats.zscore`; in Prometheus' own functions
    `(x - avg_over_time(x[W])) / stddev_over_time(x[W])`.

    **Warm-up.** 3 samples.

    **Cost.** Two running folds: it does not grow with the window.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them. Samples that differ
    by less than 1e-154 count as equal.
    """
    deviation = np.sqrt(variances(block))
    # Halves, so that no difference overflows.
    away = block.newest() / 2 - avg_over_time(block)[0] / 2
    found = scores(np.where(deviation > 0, away, 0.0), deviation / 2)
    present = usable(block, 3)
    return np.where(present, found, 0.0), present


def robust_zscore_over_time(block: Block) -> Folded:
    """How far the newest sample is from the median of its window, outliers notwithstanding.

    **Formula.** `0.6745 (newest - median) / MAD`. If the MAD is 0 because more than half of the
    samples are equal, `(newest - median) / (1.2533 · mean absolute deviation from the median)`. 0
    for a constant.

    **Source.** B. Iglewicz and D. Hoaglin, *How to Detect and Handle Outliers*, 1993 (the modified
    z-score; above 3.5 they call a value an outlier); the second form is that of IBM SPSS.

    **Warm-up.** 5 samples.

    **Cost.** Two sorts of each window, n log n.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them.
    """
    return by_window(block, 5, _robust)


def _robust(few: Few) -> Float64Array:
    exists = few.exists
    ordered = np.where(exists, few.values, np.inf)
    ordered.sort(axis=1)
    middle = middle_of_sorted(ordered, few.counts)
    distances = np.abs(few.values - middle[:, None])
    distances[~exists] = 0.0
    away = few.newest - middle
    plain = in_order(distances) / few.counts * DEVIATION_OF_NORMAL
    distances[~exists] = np.inf
    distances.sort(axis=1)
    deviation = middle_of_sorted(distances, few.counts)
    return scores(away, np.where(deviation > 0, deviation / MAD_OF_NORMAL, plain))
