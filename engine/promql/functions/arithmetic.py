"""Functions of one value at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.slotted import replace

if TYPE_CHECKING:
    from engine.promql.context import Context, Partial
    from engine.promql.functions.shapes import Implementation
    from engine.series import Float64Array
    from rules.promql.ast import Call


def sgn(values: Float64Array) -> Float64Array:
    """-1, 1, or the value itself where it is 0 or NaN."""
    return np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))


def rad(values: Float64Array) -> Float64Array:
    """Degrees to radians."""
    return values * np.pi / 180


def deg(values: Float64Array) -> Float64Array:
    """Radians to degrees."""
    return values * 180 / np.pi


def round_to(values: Float64Array, nearest: Float64Array | None = None) -> Float64Array:
    """To the nearest multiple, halves up. Multiplying by the inverse loses less, as there."""
    inverse = 1.0 if nearest is None else 1.0 / nearest
    return np.floor(values * inverse + 0.5) / inverse


def _bounded(values: Float64Array, low: Float64Array, high: Float64Array) -> Float64Array:
    return np.maximum(low, np.minimum(high, values))


def clamp_min(values: Float64Array, low: Float64Array) -> Float64Array:
    """At least `low`; NaN stays."""
    return np.maximum(low, values)


def clamp_max(values: Float64Array, high: Float64Array) -> Float64Array:
    """At most `high`; NaN stays."""
    return np.minimum(high, values)


def clamp(context: Context, call: Call) -> Partial:
    """Between two bounds; nothing at steps where the upper is below the lower."""
    frame = context.frame(call.args[0]).without_histograms()
    low, high = context.scalar(call.args[1]), context.scalar(call.args[2])
    present = frame.present & ~(high < low)
    bounded = replace(
        frame, values=_bounded(frame.values, low, high), present=present, ordered=False
    )
    return context.drop_names(bounded, call.span)


def constant(value: float) -> Implementation:
    """A function without arguments that is always `value`."""

    def implementation(context: Context, _call: Call) -> Partial:
        return context.constant(value)

    return implementation
