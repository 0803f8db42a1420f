"""What a point costs, and what a series holds in memory."""

from __future__ import annotations

import importlib.util
import time
import tracemalloc
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.anomaly import rivals
from bench.anomaly.corpus import Labelled
from engine.baselines.anomaly.many import fold_many
from engine.baselines.anomaly.model import AnomalyModel, fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.series import Float64Array, Int64Array

SERIES = 1000
POINTS = 2200
CHUNK = 160
STEP_MS = 10_000


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU microseconds a point, and bytes a series.

    `alone`: one series over an axis; `together`: `SERIES` over an axis; `live`: `SERIES`, one point
    of each after another; `rival`: river's cheapest detector, None where river is not.
    """

    alone: float
    together: float
    live: float
    rival: float | None
    memory: float
    state: int


def measure(rounds: int = 5) -> Cost:
    """The fastest of some rounds, all kinds in turn."""
    times = np.arange(POINTS, dtype=np.int64) * STEP_MS
    values = np.random.default_rng(1).normal(100.0, 5.0, (SERIES, POINTS))
    series = Labelled("cost/noise", times, values[0])
    models, memory = _warm(times, values)
    kinds: dict[str, tuple[Callable[[], Any], int]] = {
        "alone": (lambda: fold(AnomalyModel(), times, values[0]), POINTS)
    }
    if importlib.util.find_spec("river") is not None:
        kinds["rival"] = (partial(rivals.river_deviation, series), POINTS)
    found: dict[str, list[float]] = {}
    for start in range(CHUNK, CHUNK * (2 * rounds), 2 * CHUNK):
        first, second = slice(start, start + CHUNK), slice(start + CHUNK, start + CHUNK + 16)
        kinds["together"] = (
            partial(fold_many, models, times[first], values[:, first]),
            CHUNK * SERIES,
        )
        kinds["live"] = (partial(_live, models, times[second], values[:, second]), 16 * SERIES)
        for name, (work, points) in kinds.items():
            found.setdefault(name, []).append(1e6 * _seconds(work) / points)
    best = {name: min(taken) for name, taken in found.items()}
    return Cost(
        best["alone"],
        best["together"],
        best["live"],
        best.get("rival"),
        memory,
        len(models[0].state()),
    )


def _warm(times: Int64Array, values: Float64Array) -> tuple[list[AnomalyModel], float]:
    """Models that have seen a chunk, and the bytes that each holds."""
    tracemalloc.start()
    models = [AnomalyModel() for _ in range(SERIES)]
    for one, row in zip(models, values, strict=True):
        fold(one, times[:CHUNK], row[:CHUNK])
    memory = tracemalloc.get_traced_memory()[0] / SERIES
    tracemalloc.stop()
    return models, memory


def _live(models: list[AnomalyModel], times: Int64Array, values: Float64Array) -> None:
    for time_ms, column in zip(times.tolist(), values.T.tolist(), strict=True):
        for one, value in zip(models, column, strict=True):
            one.update(time_ms, value)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
