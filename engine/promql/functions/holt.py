"""Holt's level and trend, one step ahead, and the band in which the next sample is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.finite import Few, by_window
from engine.promql.functions.trends import require_factors
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array


def holt_forecast_over_time(block: Block) -> Folded:
    """What the samples before the newest one foretell for it.

    **Formula.** `holt_forecast_over_time(x[1h], a, c)`: Holt's linear method, with the smoothing
    factor a and the trend factor c. Level l and trend b begin as `l = x₁`, `b = x₂ - x₁`; each
    sample makes them `l' = a x + (1 - a) (l + b)` and `b' = c (l' - l) + (1 - c) b`. The forecast
    is l + b before the newest sample. (The level after it is `double_exponential_smoothing`.)

    **Source.** C. Holt, *Forecasting Seasonals and Trends by Exponentially Weighted Moving
    Averages*, 1957; `statsmodels.tsa.api.Holt` with these beginnings.

    **Warm-up.** 3 samples.

    **Cost.** Linear in the window. Samples count as evenly spaced.

    **Absent.** Windows with fewer samples, or with NaN or an infinity in them. A factor that is not
    between 0 and 1 is an error.
    """
    return _of(block, 3, lambda few, found: few.unscaled(found.forecast))


def holt_trend_over_time(block: Block) -> Folded:
    """By how much a window rises per second in the end, as Holt's method has it.

    **Formula.** The trend b after the newest sample, over the mean spacing of the samples in
    seconds; see `holt_forecast_over_time`.

    **Source.** Holt, 1957, as above.

    **Warm-up.** 3 samples.

    **Cost.** Linear in the window.

    **Absent.** As `holt_forecast_over_time`.
    """

    def statistic(few: Few, found: _Fit) -> Float64Array:
        return few.unscaled(found.trend / (-few.times_s[:, 0] / (few.counts - 1)))

    return _of(block, 3, statistic)


def holt_band_over_time(block: Block) -> Folded:
    """How far samples usually are from their forecast.

    **Formula.** The root mean square of the errors `x - (l + b)` of Holt's forecasts for the third
    to the last but one sample; see `holt_forecast_over_time`. A sample outside of
    `forecast ± 3 · band` is unusual:
    `abs(x - holt_forecast_over_time(x[1h], 0.3, 0.1)) > 3 * holt_band_over_time(x[1h], 0.3, 0.1)`.
    0 for a constant and for a straight line.

    **Source.** Holt, 1957, as above.

    **Warm-up.** 6 samples.

    **Cost.** Linear in the window.

    **Absent.** Windows with fewer samples; else as `holt_forecast_over_time`.
    """

    def statistic(few: Few, found: _Fit) -> Float64Array:
        return few.unscaled(np.sqrt(found.squares / (few.counts - 3)))

    return _of(block, 6, statistic)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """[C] each. `forecast` of the newest sample; `trend` after it, per sample.

    `squares`: the sum of squared errors of the forecasts from the third sample to the one before
    the newest.
    """

    forecast: Float64Array
    trend: Float64Array
    squares: Float64Array


def _of(block: Block, least: int, statistic: Callable[[Few, _Fit], Float64Array]) -> Folded:
    require_factors(*block.params)
    smoothing, trending = block.params

    def fitted(few: Few) -> Float64Array:
        return statistic(few, _fit(few, smoothing[few.steps], trending[few.steps]))

    return by_window(block, least, fitted)


def _fit(few: Few, smoothing: Float64Array, trending: Float64Array) -> _Fit:
    # Differences from the first sample: a constant stays one.
    columns = np.ascontiguousarray((few.values - few.values[:, :1]).T)
    level = columns[1].copy()
    trend = level.copy()
    forecast, squares = np.zeros(level.shape), np.zeros(level.shape)
    for number, value in enumerate(columns[2:], 3):
        exists, newest = few.counts >= number, few.counts == number
        ahead = level + trend
        error = value - ahead
        following = ahead + smoothing * error
        drift = trend + trending * (following - level - trend)
        forecast[newest] = ahead[newest]
        squares += np.where(exists & ~newest, error * error, 0.0)
        level = np.where(exists, following, level)
        trend = np.where(exists, drift, trend)
    return _Fit(forecast + few.values[:, 0], trend, squares)
