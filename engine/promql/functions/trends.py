"""deriv, predict_linear and double exponential smoothing: where a window is heading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import EvaluationError
from engine.promql.summation import NEUTRAL, Sum

if TYPE_CHECKING:
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array, Int64Array


def _regression(block: Block, origin_ms: Int64Array) -> tuple[Float64Array, Float64Array]:
    """Slope per second and value at `origin_ms` ([T]) of the least-squares line, each [S, T].

    The sums are compensated (promql/functions.go, linearRegression). A constant has slope 0
    exactly, an infinite constant has none.
    """
    shape = block.shape
    x_sum, xx_sum = Sum.zero(shape), Sum.zero(shape)
    y_sum, xy_sum = Sum.zero(shape), Sum.zero(shape)
    first = block.oldest()
    constant = np.ones(shape, dtype=np.bool_)
    for _, index, exists in block.walk():
        seen = block.where(exists)
        y = block.at(index)
        x = np.broadcast_to((block.times_at(index) - origin_ms) / 1000, y.shape)
        constant &= (y == first) | ~seen
        for total, what in ((x_sum, x), (y_sum, y), (xy_sum, x * y), (xx_sum, x * x)):
            total.add(np.where(seen, what, NEUTRAL), slice(None))
    # A single sample never compares with itself in the original, so a lone NaN is "constant";
    # windows of one sample are dropped by the callers.
    count = block.bounds.counts
    sum_x, sum_y = x_sum.result(), y_sum.result()
    covariance = xy_sum.result() - sum_x * sum_y / count
    variance = xx_sum.result() - sum_x * sum_x / count
    slope = covariance / variance
    intercept = sum_y / count - slope * sum_x / count
    infinite = np.isinf(first)
    slope = np.where(constant, np.where(infinite, np.nan, 0.0), slope)
    intercept = np.where(constant, np.where(infinite, np.nan, first), intercept)
    return slope, intercept


def deriv(block: Block) -> Folded:
    """Slope per second. x counts from the window's first sample, which keeps it small."""
    slope, _ = _regression(block, block.times_at(block.lo))
    return slope, block.several


def predict_linear(block: Block) -> Folded:
    """The line's value param 0 seconds after the step (not after the window's end)."""
    slope, intercept = _regression(block, block.times_ms)
    return slope * block.params[0] + intercept, block.several


def double_exponential_smoothing(block: Block) -> Folded:
    """Holt's linear method; params: smoothing factor, trend factor, both within (0, 1)."""
    smoothing, trend = block.params
    _require_factor("smoothing factor", "sf", smoothing)
    _require_factor("trend factor", "tf", trend)
    before = np.zeros(block.shape)
    level = block.oldest()
    slope = block.at(block.lo + 1) - level
    for number, index, exists in block.walk(first=1):
        drift = slope
        if number > 1:
            drift = trend * (level - before) + (1 - trend) * slope
        following = smoothing * block.at(index) + (1 - smoothing) * (level + drift)
        before = np.where(exists, level, before)
        slope = np.where(exists, drift, slope)
        level = np.where(exists, following, level)
    return level, block.several


def _require_factor(name: str, short: str, factor: Float64Array) -> None:
    bad = factor[~((factor > 0) & (factor < 1)) & ~np.isnan(factor)]
    if bad.size:
        raise EvaluationError(f"invalid {name}. Expected: 0 < {short} < 1, got: {bad[0]:f}")
