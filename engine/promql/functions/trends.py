"""deriv, predict_linear and double exponential smoothing: where a window is heading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.errors import InvalidParameter
from engine.promql.lines import lines_at, slopes

if TYPE_CHECKING:
    from engine.promql.windows import Block, Folded
    from engine.series import Float64Array


def deriv(block: Block) -> Folded:
    """Slope per second of the least-squares line; NaN where a sample is NaN or infinite."""
    return slopes(block), block.several


def predict_linear(block: Block) -> Folded:
    """The line's value param 0 seconds after the step (not after the window's end)."""
    return lines_at(block, block.times_ms, block.params[0]), block.several


def double_exponential_smoothing(block: Block) -> Folded:
    """Holt's linear method; params: smoothing factor, trend factor, both within (0, 1)."""
    smoothing, trend = block.params
    require_factors(smoothing, trend, allows_nan=True)
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


def require_factors(
    smoothing: Float64Array, trend: Float64Array, *, allows_nan: bool = False
) -> None:
    """Raise InvalidParameter unless both are within (0, 1); Prometheus lets NaN pass."""
    for number, (name, factor) in enumerate((("smoothing", smoothing), ("trend", trend))):
        good = (factor > 0) & (factor < 1)
        if allows_nan:
            good |= np.isnan(factor)
        if not good.all():
            message = f"invalid {name} factor. Expected: 0 < {name[0]}f < 1, got: "
            raise InvalidParameter(f"{message}{factor[~good][0]:f}", number)
