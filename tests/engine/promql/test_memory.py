"""An evaluation's arrays go when it is over, and do not wait for the collector of cycles.

One cycle that holds an array keeps a whole block's memory until the collector comes by, which for
few large objects is seldom.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset import MemoryDataset
from engine.dataset.dataset import union
from engine.labels import Labels
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis
from engine.series import Series
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def data() -> MemoryDataset:
    rng = np.random.default_rng(1)
    times = np.arange(0, 90 * MINUTE_MS, 10_000)
    return MemoryDataset(
        union(
            [
                Series(
                    Labels.of(__name__=name, le=str(rank % 4), rank=str(rank)),
                    times if rank % 2 else times + rng.integers(0, 1000, times.size),
                    np.cumsum(rng.random(times.size)),
                )
                for name in ("x", "g", "h_bucket")
                for rank in range(8)
            ]
        )
    )


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "expr",
    [
        "rate(x[5m]) > 1",
        "sum by (rank) (rate(x[5m])) / ignoring(le) sum by (rank) (g)",
        "avg_over_time(g[5m])",
        "avg_over_time(g[1h]) > 1",
        "min_over_time(g[15m]) + max_over_time(g[1h])",
        "stddev_over_time(g[30m])",
        "deriv(g[30m]) + predict_linear(g[5m], 60)",
        "quantile_over_time(0.9, g[10m])",
        "changes(g[5m]) + resets(x[5m])",
        "topk(2, rate(x[1m]))",
        "histogram_quantile(0.9, rate(h_bucket[5m]))",
        "max_over_time(rate(x[1m])[10m:30s])",
        "x > on (rank, le) group_left () avg by (rank, le) (x offset 1m)",
        "double_exponential_smoothing(g[5m], 0.5, 0.5)",
        "absent_over_time(g[1m]) or label_replace(g, 'a', '$1', 'rank', '(.*)')",
        "rate(x[5m] smoothed) + increase(x[5m] anchored)",
    ],
)
@pytest.mark.usefixtures("without_collector")
def test_no_cycle_holds_an_array(expr: str, workers: int, data: MemoryDataset) -> None:
    axis = Axis.span(0, 90 * MINUTE_MS, 15_000)
    result = evaluate(parse(expr), axis, data, Options(workers=workers, fork_cells=0))
    del result
    gc.collect()
    held = [
        f"{type(holder).__name__} holds {held.dtype}{held.shape}"
        for holder in gc.garbage
        for held in gc.get_referents(holder)
        if isinstance(held, np.ndarray)
    ]
    assert not held
