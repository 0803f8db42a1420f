"""Functions of one window: a list of (time in ms, value), oldest first, never empty.

None means no result. Sums are exact rationals, so that nothing is lost before the last rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Window(NamedTuple):
    """(start, end] of a series at a step. `params`: the function's scalar arguments there."""

    points: list[tuple[int, float]]
    start_ms: int
    end_ms: int
    step_ms: int
    params: tuple[float, ...] = ()

    @property
    def values(self) -> list[float]:
        return [value for _, value in self.points]

    @property
    def range_s(self) -> float:
        return (self.end_ms - self.start_ms) / 1000


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def total(values: Sequence[float]) -> float:
    if all(map(math.isfinite, values)):
        return rounded(sum(map(Fraction, values), Fraction(0)))
    return math.nan if len(wild := set(values) - finite(values)) > 1 else wild.pop()


def finite(values: Sequence[float]) -> set[float]:
    return {value for value in values if math.isfinite(value)}


def mean(values: Sequence[float]) -> float:
    if all(map(math.isfinite, values)):
        return rounded(sum(map(Fraction, values), Fraction(0)) / len(values))
    return total(values)


def variance(values: Sequence[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    centre = sum(exact, Fraction(0)) / len(exact)
    return rounded(sum(((value - centre) ** 2 for value in exact), Fraction(0)) / len(exact))


def quantile(fraction: float, values: Sequence[float]) -> float:
    if math.isnan(fraction) or not values:
        return math.nan
    if not 0 <= fraction <= 1:
        return -math.inf if fraction < 0 else math.inf
    ordered = sorted(values, key=lambda value: (not math.isnan(value), value))
    rank = fraction * (len(ordered) - 1)
    low = math.floor(rank)
    weight = rank - low
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - weight) + ordered[high] * weight


def extreme(values: Sequence[float], beats: Callable[[float, float], bool]) -> float:
    best = values[0]
    for value in values:
        if beats(value, best) or math.isnan(best):
            best = value
    return best


def maximum(values: Sequence[float]) -> float:
    return extreme(values, lambda value, best: value > best)


def minimum(values: Sequence[float]) -> float:
    return extreme(values, lambda value, best: value < best)


def median_deviation(values: Sequence[float]) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    centre = quantile(0.5, values)
    return quantile(0.5, [abs(value - centre) for value in values])


def pairs(window: Window) -> list[tuple[float, float]]:
    return list(zip(window.values, window.values[1:], strict=False))


def changes(window: Window) -> float:
    return float(sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairs(window)))


def resets(window: Window) -> float:
    return float(sum(b < a for a, b in pairs(window)))


def extrapolated(window: Window, *, counter: bool) -> float | None:
    (first_ms, first), (last_ms, last) = window.points[0], window.points[-1]
    if len(window.points) < 2:
        return None
    risen = last - first
    if counter:
        risen += sum(a for a, b in pairs(window) if b < a)
    sampled = (last_ms - first_ms) / 1000
    spacing = sampled / (len(window.points) - 1)
    before, after = (first_ms - window.start_ms) / 1000, (window.end_ms - last_ms) / 1000
    if before >= spacing * 1.1:
        before = spacing / 2
    if counter and risen > 0 and first >= 0:
        before = min(before, sampled * (first / risen))
    if after >= spacing * 1.1:
        after = spacing / 2
    return risen * ((sampled + before + after) / sampled)


def rate(window: Window) -> float | None:
    risen = extrapolated(window, counter=True)
    return None if risen is None else risen / window.range_s


def irate(window: Window) -> float | None:
    if len(window.points) < 2:
        return None
    (one_ms, one), (other_ms, other) = window.points[-2:]
    return (other if other < one else other - one) / ((other_ms - one_ms) / 1000)


def idelta(window: Window) -> float | None:
    return None if len(window.points) < 2 else window.values[-1] - window.values[-2]


def line(window: Window, origin_ms: int) -> tuple[float, float]:
    """Slope per second and value at the origin of the least-squares line."""
    values = window.values
    if all(value == values[0] for value in values):
        return (math.nan, math.nan) if math.isinf(values[0]) else (0.0, values[0])
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    times = [Fraction(time - origin_ms, 1000) for time, _ in window.points]
    exact = [Fraction(value) for value in values]
    n = len(values)
    sum_t, sum_v = sum(times, Fraction(0)), sum(exact, Fraction(0))
    sum_tv = sum((t * v for t, v in zip(times, exact, strict=True)), Fraction(0))
    sum_tt = sum((t * t for t in times), Fraction(0))
    slope = (sum_tv - sum_t * sum_v / n) / (sum_tt - sum_t * sum_t / n)
    return rounded(slope), rounded(sum_v / n - slope * sum_t / n)


def deriv(window: Window) -> float | None:
    return None if len(window.points) < 2 else line(window, window.points[0][0])[0]


def predict_linear(window: Window) -> float | None:
    if len(window.points) < 2:
        return None
    slope, value = line(window, window.step_ms)
    return slope * window.params[0] + value


def smoothed(window: Window) -> float | None:
    smoothing, trend = window.params
    values = window.values
    if len(values) < 2:
        return None
    level, slope, before = values[0], values[1] - values[0], 0.0
    for number, value in enumerate(values[1:]):
        if number:
            slope = trend * (level - before) + (1 - trend) * slope
        before, level = level, smoothing * value + (1 - smoothing) * (level + slope)
    return level


def time_of(window: Window, best: float) -> float:
    """When the newest sample that equals `best` was taken; NaN is best only if all are."""
    found = window.points[-1][0]
    for time, value in window.points:
        if value == best:
            found = time
    return found / 1000


FUNCTIONS: dict[str, Callable[[Window], float | None]] = {
    "avg_over_time": lambda w: mean(w.values),
    "changes": changes,
    "count_over_time": lambda w: float(len(w.points)),
    "delta": lambda w: extrapolated(w, counter=False),
    "deriv": deriv,
    "double_exponential_smoothing": smoothed,
    "first_over_time": lambda w: w.values[0],
    "idelta": idelta,
    "increase": lambda w: extrapolated(w, counter=True),
    "irate": irate,
    "last_over_time": lambda w: w.values[-1],
    "mad_over_time": lambda w: median_deviation(w.values),
    "max_over_time": lambda w: maximum(w.values),
    "min_over_time": lambda w: minimum(w.values),
    "predict_linear": predict_linear,
    "present_over_time": lambda _: 1.0,
    "quantile_over_time": lambda w: quantile(w.params[0], w.values),
    "rate": rate,
    "resets": resets,
    "stddev_over_time": lambda w: math.sqrt(variance(w.values)),
    "stdvar_over_time": lambda w: variance(w.values),
    "sum_over_time": lambda w: total(w.values),
    "ts_of_first_over_time": lambda w: w.points[0][0] / 1000,
    "ts_of_last_over_time": lambda w: w.points[-1][0] / 1000,
    "ts_of_max_over_time": lambda w: time_of(w, maximum(w.values)),
    "ts_of_min_over_time": lambda w: time_of(w, minimum(w.values)),
}
