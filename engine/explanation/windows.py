"""What a statistic of a window is made of: its samples, what they lead to expect, and how far.

For one window at a time and for people to read; the value itself is the evaluator's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from engine.explanation.data import nameless, number
from engine.promql.functions.seasonal import BESIDE
from engine.promql.functions.zscores import DEVIATION_OF_NORMAL, MAD_OF_NORMAL
from engine.timestamps import unix_seconds
from rules.promql.ast import MatrixSelector, Subquery
from rules.promql.walk import unwrapped
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.explanation.data import Data
    from engine.labels import Labels
    from engine.series import Float64Array, Series
    from rules.promql.ast import Call

# Where values are expected, and how far from there a spread is.
Centring: TypeAlias = "Callable[..., tuple[float, float]]"
# So many spreads are expected where the rule compares the score with no number.
USUAL_SPREADS: Final = 3.0
CENTRES: Final = {
    "zscore_over_time": "mean",
    "robust_zscore_over_time": "median",
    "ewma_zscore": "weighted mean",
    "seasonal_zscore": "mean of earlier seasons",
}
# What is told beside a statistic: others of its family over the same window.
FAMILIES: Final = {
    "changepoint_": ("changepoint_size_over_time", "changepoint_time_over_time",
                     "changepoint_pvalue_over_time"),
    "trend_": ("trend_over_time", "trend_pvalue_over_time"),
    "holt_": ("holt_forecast_over_time", "holt_band_over_time"),
    "distribution_shift": ("distribution_shift", "distribution_shift_pvalue"),
}  # fmt: skip


def of_window(
    data: Data, call: Call, time_ms: int, labels: Labels, limit: float | None
) -> dict[str, Any]:
    """The window of the element with these labels; `limit`: what its score is compared with."""
    found: dict[str, Any] = {}
    series = [_own(data, call, place, time_ms, labels) for place in _ranges(call)]
    if series[0] is not None:
        found["window"] = summary(series[0])
    if len(series) > 1 and series[1] is not None:
        found["reference"] = summary(series[1])
        found["expected"] = [found["reference"]["lower"], found["reference"]["upper"]]
    others = _others(data, call, time_ms, labels)
    found |= {name: number(value) for name, value in others.items()}
    if call.func in CENTRES and series[0] is not None:
        params = [value for arg in call.args[1:] for _, value in data.rows(arg, time_ms)]
        centre, spread = SCORED[call.func](series[0], _length_ms(call), *params)
        found |= {"centre": number(centre), "centre_is": CENTRES[call.func]}
        found |= {"spread": number(spread)} | _expected(centre, spread, limit)
    elif call.func.startswith("holt_") and len(others) == 2:
        forecast, band = others.values()
        found |= _expected(forecast, band, None)
    return found


def summary(series: Series) -> dict[str, Any]:
    """How many samples, from when to when, the newest one and the quartiles."""
    times, values = series.timestamps_ms, series.values
    lower, median, upper = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return {
        "samples": len(values),
        "first": unix_seconds(int(times[0])),
        "last": unix_seconds(int(times[-1])),
        "newest": number(float(values[-1])),
        "median": number(median),
        "lower": number(lower),
        "upper": number(upper),
    }


def _expected(centre: float, spread: float, limit: float | None) -> dict[str, Any]:
    spreads = USUAL_SPREADS if limit is None or not math.isfinite(limit) else abs(limit)
    band = [number(centre - spreads * spread), number(centre + spreads * spread)]
    return {"spreads": spreads, "expected": band}


def _ranges(call: Call) -> tuple[int, ...]:
    return (0, 1) if call.func.startswith("distribution_shift") else (0,)


def _own(data: Data, call: Call, place: int, time_ms: int, labels: Labels) -> Series | None:
    for one in data.samples(call.args[place], time_ms):
        if nameless(one.labels) == nameless(labels) and one.values.size:
            return one
    return None


def _others(data: Data, call: Call, time_ms: int, labels: Labels) -> dict[str, float]:
    """The values of a statistic's family, itself included, by function."""
    names = next((own for begin, own in FAMILIES.items() if call.func.startswith(begin)), ())
    return {
        name: value
        for name in names
        for own, value in data.rows(replace(call, func=name), time_ms)
        if nameless(own) == nameless(labels)
    }


def _length_ms(call: Call) -> int:
    argument = unwrapped(call.args[0])
    return argument.range.milliseconds if isinstance(argument, MatrixSelector | Subquery) else 0


def _plain(series: Series, _length_ms: int) -> tuple[float, float]:
    return float(np.mean(series.values)), float(np.std(series.values))


def _robust(series: Series, _length_ms: int) -> tuple[float, float]:
    median = float(np.median(series.values))
    distances = np.abs(series.values - median)
    deviation = float(np.median(distances)) / MAD_OF_NORMAL
    return median, deviation or float(np.mean(distances)) * DEVIATION_OF_NORMAL


def _weighted(series: Series, _length_ms: int, halflife: float) -> tuple[float, float]:
    times, values = series.timestamps_ms[:-1], series.values[:-1]
    weights = np.exp2(-(times[-1] - times) / 1000 / halflife)
    mean = float(np.average(values, weights=weights))
    return mean, math.sqrt(float(np.average((values - mean) ** 2, weights=weights)))


def _seasonal(series: Series, length_ms: int, period: float) -> tuple[float, float]:
    values = _earlier_seasons(series, length_ms, round(period * 1000))
    return float(np.mean(values)), float(np.std(values, ddof=1))


def _earlier_seasons(series: Series, length_ms: int, period_ms: int) -> Float64Array:
    """The samples of the newest one's time in the seasons before, the latest first."""
    times, found = series.timestamps_ms, []
    for season in range(1, length_ms // period_ms + 1):
        wanted = int(times[-1]) - season * period_ms
        place = int(np.argmin(np.abs(times - wanted)))
        if abs(int(times[place]) - wanted) <= period_ms * BESIDE:
            found.append(float(series.values[place]))
    return np.array(found, dtype=np.float64)


SCORED: Final[Mapping[str, Centring]] = {
    "zscore_over_time": _plain,
    "robust_zscore_over_time": _robust,
    "ewma_zscore": _weighted,
    "seasonal_zscore": _seasonal,
}
