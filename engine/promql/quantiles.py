"""Quantiles of samples, as Prometheus ranks and interpolates them (promql/quantile.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.series import BoolArray, Float64Array


def quantile(quantiles: Float64Array, values: Float64Array, exists: BoolArray) -> Float64Array:
    """The φ-quantile along the last axis, NaN counting as the smallest value.

    `quantiles`: [T]; `values` and `exists`: [..., T, W]. φ < 0 gives -Inf, φ > 1 +Inf, NaN or
    no value NaN.
    """
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    # Rank 0: NaN, 1: numbers, 2: what does not exist; lexsort's last key is the primary one.
    rank = np.where(exists, np.where(np.isnan(values), 0, 1), 2)
    order = np.lexsort((values, rank), axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    count = exists.sum(axis=-1)
    usable = (quantiles >= 0) & (quantiles <= 1)
    position = np.where(usable, quantiles, 0.0) * (count - 1)
    lower = np.maximum(0, np.floor(position)).astype(np.intp)
    upper = np.clip(lower + 1, 0, np.maximum(count - 1, 0))
    weight = position - np.floor(position)
    low = np.take_along_axis(ordered, lower[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(ordered, upper[..., None], axis=-1)[..., 0]
    found = low * (1 - weight) + high * weight
    found = np.where(quantiles < 0, -np.inf, np.where(quantiles > 1, np.inf, found))
    return np.where(np.isnan(quantiles) | (count == 0), np.nan, found)
