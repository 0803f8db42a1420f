"""How often pure noise is told: onsets a day of one series, by what a rule asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.baselines.anomaly.many import fold_many
from engine.baselines.anomaly.model import AnomalyModel

if TYPE_CHECKING:
    from engine.series import Float64Array

SERIES = 100
STEP_MS = 10_000
DAY = 8640
ASKED = (0.5, 0.53, 0.55, 0.6)


def onsets_a_day() -> dict[str, list[float]]:
    """For each kind of noise, the onsets of the second day at each of `ASKED`."""
    random = np.random.default_rng(1)
    shape = (SERIES, 2 * DAY)
    kinds = {
        "normal": random.normal(size=shape),
        "Poisson, mean 5": random.poisson(5.0, shape).astype(np.float64),
        "exponential": random.exponential(size=shape),
        "log-normal": random.lognormal(size=shape),
    }
    return {kind: _counted(values) for kind, values in kinds.items()}


def _counted(values: Float64Array) -> list[float]:
    times = np.arange(values.shape[1], dtype=np.int64) * STEP_MS
    scores = fold_many([AnomalyModel() for _ in values], times, values)[:, DAY:]
    return [float(np.count_nonzero(scores >= asked)) / len(values) for asked in ASKED]
