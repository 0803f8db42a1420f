"""Variances of windows, without cancellation across windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.promql.cells import count, gathered
from engine.promql.deviations import deviations, spread_about
from engine.promql.summation import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.cells import Gathered
    from engine.promql.windows import Block
    from engine.series import Float64Array

# Squares and products of values up to here stay finite; larger ones are scaled by 2^SCALE.
LARGEST_SQUARED = 1e100
SCALE = -700

# A variance this much smaller than the squares that it is the difference of is worked out anew.
CANCELLED = 1 / 128


def variances(block: Block) -> Float64Array:
    """Population variances, [S, T]; NaN for a window with NaN or an infinity in it."""
    return scaled(block, _variances, power=2)


def _variances(block: Block) -> Float64Array:
    values = deviations(block, block.values)
    squares = spread_about(values, values)
    total = values.squares.before + values.squares.beyond
    total *= CANCELLED
    cancelled = squares < total
    squares = values.at_steps(squares)
    careful = np.empty(0, dtype=np.intp)
    if cancelled.any():
        squares = np.ascontiguousarray(squares)
        careful = np.flatnonzero(values.at_steps(cancelled) & block.filled)
    for some in gathered(block, careful, 0.0):
        squares.reshape(-1)[careful[some.cells]] = _squares(some)
    np.maximum(squares, 0.0, out=squares)
    squares /= block.bounds.counts
    return squares


def _squares(windows: Gathered) -> Float64Array:
    """The sums of the squares of windows' deviations from their means, in two passes."""
    away = np.ascontiguousarray(windows.values.T, dtype=np.float64)
    away -= away[0].copy()
    number: Float64Array | float = float(away.shape[0])
    gone = None
    if windows.exists is not None:
        gone = ~windows.exists.T
        number -= gone.sum(axis=0)
        away[gone] = 0.0
    away -= _in_order(away) / number
    if gone is not None:
        away[gone] = 0.0
    rest = _in_order(away)
    away *= away
    return _in_order(away) - rest * rest / number


def _in_order(values: Float64Array) -> Float64Array:
    """The sums over the first axis, one after another, so that no bit depends on what fills up."""
    total = np.zeros(values.shape[1])
    for one in values:
        total += one
    return total


def scaled(block: Block, plain: Callable[[Block], Float64Array], *, power: int) -> Float64Array:
    """Fold windows of finite values of any size: `plain` sees none above LARGEST_SQUARED.

    What is folded grows with the given power of the values.
    """
    values = block.values
    if is_plain(values, LARGEST_SQUARED):
        return plain(block)
    finite = np.isfinite(values)
    calm = np.where(finite, values, 0.0)
    huge = np.abs(calm) > LARGEST_SQUARED
    found = plain(block.with_values(np.where(huge, 0.0, calm)))
    if huge.any():
        scaled = block.with_values(np.ldexp(calm, SCALE))
        large = np.ldexp(plain(scaled), -SCALE * power)
        found = np.where(count(block, huge) > 0, large, found)
    if not finite.all():
        found[count(block, ~finite) > 0] = np.nan
    return found
