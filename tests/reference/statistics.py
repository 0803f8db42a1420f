"""Statistics of one window, by their formulas, with exact fractions where that is possible."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .windows import Window


def over(spread: float, away: float) -> float:
    if away == 0:
        return 0.0
    return math.copysign(math.inf, away) if spread == 0 else away / spread


def zscore(window: Window) -> float:
    exact = [Fraction(value) for value in window.values]
    centre = sum(exact, Fraction(0)) / len(exact)
    variance = sum(((value - centre) ** 2 for value in exact), Fraction(0)) / len(exact)
    return over(math.sqrt(variance), float(exact[-1] - centre))


def robust_zscore(window: Window) -> float:
    values = window.values
    centre = median(values)
    away = [abs(value - centre) for value in values]
    if median(away) > 0:
        return 0.6744897501960817 * (values[-1] - centre) / median(away)
    return over(math.sqrt(math.pi / 2) * fmean(away), values[-1] - centre)


def weighted(points: Sequence[tuple[int, float]], halflife: float) -> tuple[float, float]:
    newest = points[-1][0]
    weights = [Fraction(2 ** (-(newest - time) / 1000 / halflife)) for time, _ in points]
    values = [Fraction(value) for _, value in points]
    total = sum(weights, Fraction(0))
    both = list(zip(weights, values, strict=True))
    mean = sum((weight * value for weight, value in both), Fraction(0)) / total
    squares = sum((weight * (value - mean) ** 2 for weight, value in both), Fraction(0))
    return float(mean), float(squares / total)


def ewma_zscore(window: Window) -> float:
    mean, variance = weighted(window.points[:-1], window.params[0])
    return over(math.sqrt(variance), window.values[-1] - mean)


def entropy(window: Window) -> float:
    number = len(window.values)
    shares = [count / number for count in Counter(window.values).values()]
    return -sum(share * math.log2(share) for share in shares)


def split(values: Sequence[float]) -> tuple[float, int]:
    """Pettitt's K and how many samples come before the change: by comparing every pair."""
    best, place = -1.0, 0
    for before in range(1, len(values)):
        uneven = sum(
            (one > other) - (one < other) for one in values[:before] for other in values[before:]
        )
        if abs(uneven) > best:
            best, place = float(abs(uneven)), before
    return best, place


def changepoint_p(window: Window) -> float:
    number, (most, _) = len(window.values), split(window.values)
    return min(1.0, 2 * math.exp(-6 * most**2 / (number**3 + number**2)))


def changepoint_size(window: Window) -> float:
    most, before = split(window.values)
    return median(window.values[before:]) - median(window.values[:before]) if most else 0.0


def changepoint_time(window: Window) -> float | None:
    most, before = split(window.values)
    return window.points[before][0] / 1000 if most else None


def trend(window: Window) -> float:
    points = window.points
    return median(
        (other - one) / ((later - earlier) / 1000)
        for place, (earlier, one) in enumerate(points)
        for later, other in points[place + 1 :]
    )


def trend_p(window: Window) -> float:
    values, number = window.values, len(window.values)
    balance = sum(
        (other > one) - (other < one)
        for place, one in enumerate(values)
        for other in values[place + 1 :]
    )
    tied = sum(count * (count - 1) * (2 * count + 5) for count in Counter(values).values())
    variance = (number * (number - 1) * (2 * number + 5) - tied) / 18
    if not balance:
        return 1.0
    score = (abs(balance) - 1) / math.sqrt(variance)
    return math.erfc(score / math.sqrt(2))


def seasonal(window: Window) -> float | None:
    period = window.params[0] * 1000
    newest, value = window.points[-1]
    found = []
    for number in range(1, int((window.end_ms - window.start_ms) // period) + 1):
        wanted = newest - number * period
        time, earlier = min(window.points, key=lambda point: abs(point[0] - wanted))
        if abs(time - wanted) <= period / 20:
            found.append(earlier)
    if len(found) < 3:
        return None
    return over(stdev(found), value - fmean(found))


def holt(window: Window) -> tuple[float, float, list[float]]:
    """The forecast of the newest sample, the trend after it, and all errors of forecasts."""
    smoothing, trending, *_ = map(Fraction, window.params)
    values = [Fraction(value) for value in window.values]
    level, slope = values[1], values[1] - values[0]
    forecast, errors = Fraction(0), []
    for value in values[2:]:
        forecast = level + slope
        errors.append(float(value - forecast))
        following = smoothing * value + (1 - smoothing) * forecast
        slope = trending * (following - level) + (1 - trending) * slope
        level = following
    return float(forecast), float(slope), errors


def holt_trend(window: Window) -> float:
    seconds = (window.points[-1][0] - window.points[0][0]) / 1000
    return holt(window)[1] / (seconds / (len(window.points) - 1))


def holt_band(window: Window) -> float:
    errors = holt(window)[2][:-1]
    return math.sqrt(fmean(error**2 for error in errors))


def from_samples(
    least: int, statistic: Callable[[Window], float | None]
) -> Callable[[Window], float | None]:
    def known(window: Window) -> float | None:
        if len(window.points) < least or not all(map(math.isfinite, window.values)):
            return None
        return statistic(window)

    return known


STATISTICS: dict[str, Callable[[Window], float | None]] = {
    "changepoint_pvalue_over_time": from_samples(8, changepoint_p),
    "changepoint_size_over_time": from_samples(8, changepoint_size),
    "changepoint_time_over_time": from_samples(8, changepoint_time),
    "entropy_over_time": from_samples(2, entropy),
    "ewma_over_time": from_samples(1, lambda w: weighted(w.points, w.params[0])[0]),
    "ewma_zscore": from_samples(5, ewma_zscore),
    "holt_band_over_time": from_samples(6, holt_band),
    "holt_forecast_over_time": from_samples(3, lambda w: holt(w)[0]),
    "holt_trend_over_time": from_samples(3, holt_trend),
    "robust_zscore_over_time": from_samples(5, robust_zscore),
    "seasonal_zscore": from_samples(1, seasonal),
    "trend_over_time": from_samples(3, trend),
    "trend_pvalue_over_time": from_samples(8, trend_p),
    "zscore_over_time": from_samples(3, zscore),
}
