"""What statistics of a window cost, beside functions that Prometheus has. Prints a table.

    python -m bench.windows [--series N]

Windows of an hour at 10 s, 360 samples, a step a minute for an hour; for the slope of all pairs 20
minutes. CPU time, the better of two runs, since a busy machine must not be taken for a slow
program; the ratio is to `quantile_over_time` on the same windows in the same run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import evaluate
from engine.promql.value import Axis
from engine.series import Series
from rules.promql.parser import parse

SPACING_MS, HOUR_MS = 10_000, 3_600_000
PEER = "quantile_over_time(0.5, x[1h])"
EXPRESSIONS = (
    "stddev_over_time(x[1h])",
    PEER,
    "mad_over_time(x[1h])",
    "zscore_over_time(x[1h])",
    "robust_zscore_over_time(x[1h])",
    "ewma_over_time(x[1h], 10m)",
    "ewma_zscore(x[1h], 10m)",
    "seasonal_zscore(x[1h], 10m)",
    "holt_forecast_over_time(x[1h], 0.3, 0.1)",
    "changepoint_pvalue_over_time(x[1h])",
    "changepoint_size_over_time(x[1h])",
    "entropy_over_time(x[1h])",
    "distribution_shift(x[5m], x[1h] offset 5m)",
    "trend_pvalue_over_time(x[1h])",
    "trend_over_time(x[20m])",
    "topk by (task_id) (1, x)",
    "straggler_score by (task_id) (x)",
)


def dataset(series: int) -> MemoryDataset:
    """Two hours of noise around 10, eight ranks a task."""
    random = np.random.default_rng(1)
    times = np.arange(2 * HOUR_MS // SPACING_MS, dtype=np.int64) * SPACING_MS
    return MemoryDataset(
        tuple(
            Series(
                Labels.of(__name__="x", rank=f"{number:05}", task_id=f"t{number // 8:05}"),
                times,
                random.normal(10.0, 1.0, times.size),
            )
            for number in range(series)
        )
    )


def microseconds(text: str, data: MemoryDataset, series: int) -> float:
    """For one window, or for one element of a vector."""
    axis = Axis.span(HOUR_MS, 2 * HOUR_MS - 60_000, 60_000)
    tree, taken = parse(text), []
    for _ in range(2):
        began = time.process_time()
        evaluate(tree, axis, data)
        taken.append(time.process_time() - began)
    return min(taken) * 1e6 / (series * axis.times_ms.size)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=200)
    series = parser.parse_args().series
    data = dataset(series)
    costs = {text: microseconds(text, data, series) for text in EXPRESSIONS}
    print("| expression | µs a window | beside the median |\n|---|---|---|")
    for text, cost in costs.items():
        print(f"| `{text}` | {cost:.2f} | {cost / costs[PEER]:.2f} |")


if __name__ == "__main__":
    main()
