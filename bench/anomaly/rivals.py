"""Other streaming detectors, each a function from a series to a score of every point."""

from __future__ import annotations

import importlib.util
import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.anomaly.corpus import Labelled
    from engine.series import Float64Array

    Detector = Callable[[Labelled], Float64Array]

# What NAB itself lets its windowed Gaussian look back on.
WINDOW = 6400
STEP = 100


def windowed_gaussian(series: Labelled) -> Float64Array:
    """The tail probability under a normal distribution of the last values.

    As NAB's baseline: the distribution is worked out anew every `STEP` points once the window is
    full, and with every point before that.
    """
    values = series.values
    scores = np.zeros(len(values))
    mean, deviation = 0.0, 1.0
    for i, value in enumerate(values):
        if i and (i < WINDOW or (i - WINDOW) % STEP == 0):
            window = values[max(0, i - WINDOW) : i]
            mean, deviation = window.mean(), max(window.std(), 1e-6)
        scores[i] = 1.0 - norm.sf(abs(value - mean) / deviation)
    return scores


def skyline(series: Labelled) -> Float64Array:
    """The share of three of Etsy Skyline's tests that a point fails.

    Three sigma from the mean, three from the exponential mean (half-life 100), and six times the
    median absolute deviation, over all points so far.
    """
    values = series.values
    scores = np.zeros(len(values))
    mean = square = smooth = smooth_square = 0.0
    keep = 0.5 ** (1 / 100)
    last: deque[float] = deque(maxlen=1000)
    for i, value in enumerate(values):
        if i >= 10:
            deviation = math.sqrt(max(square - mean * mean, 0.0))
            spread = math.sqrt(max(smooth_square - smooth * smooth, 0.0))
            window = np.fromiter(last, float)
            median = np.median(window)
            usual = np.median(np.abs(window - median))
            failed = abs(value - mean) > 3 * deviation, abs(value - smooth) > 3 * spread
            scores[i] = (sum(failed) + (abs(value - median) > 6 * usual)) / 3
        last.append(value)
        share = 1 / (i + 1)
        mean += share * (value - mean)
        square += share * (value * value - square)
        weight = max(1 - keep, share)
        smooth += weight * (value - smooth)
        smooth_square += weight * (value * value - smooth_square)
    return scores


def river_gaussian(series: Labelled) -> Float64Array:
    """The GaussianScorer of river, over a window."""
    from river import anomaly

    detector = anomaly.GaussianScorer(window_size=1000, grace_period=100)
    return _supervised(detector.score_one, detector.learn_one, series)


def river_deviation(series: Labelled) -> Float64Array:
    """The StandardAbsoluteDeviation of river, its cheapest: deviations from the mean."""
    from river import anomaly, stats

    detector = anomaly.StandardAbsoluteDeviation(sub_stat=stats.Mean())
    return np.abs(_supervised(detector.score_one, detector.learn_one, series))


def river_trees(series: Labelled) -> Float64Array:
    """The HalfSpaceTrees of river, on values between the extremes so far."""
    from river import anomaly, preprocessing

    scaler = preprocessing.MinMaxScaler()
    trees = anomaly.HalfSpaceTrees(seed=1, n_trees=10, height=8, window_size=250)
    scores = np.zeros(len(series.values))
    for i, value in enumerate(series.values.tolist()):
        point = {"value": value}
        scaler.learn_one(point)
        scaled = scaler.transform_one(point)
        scores[i] = trees.score_one(scaled)
        trees.learn_one(scaled)
    return scores


def _supervised(
    score: Callable[[None, float], float],
    learn: Callable[[None, float], None],
    series: Labelled,
) -> Float64Array:
    scores = np.zeros(len(series.values))
    for i, value in enumerate(series.values.tolist()):
        scores[i] = score(None, value)
        learn(None, value)
    return np.nan_to_num(scores)


def rivals() -> dict[str, Detector]:
    """Those that are here, by name."""
    found: dict[str, Detector] = {
        "windowed Gaussian": windowed_gaussian,
        "sigma tests (Skyline)": skyline,
    }
    if importlib.util.find_spec("river") is not None:
        found["river GaussianScorer"] = river_gaussian
        found["river StandardAbsoluteDeviation"] = river_deviation
        found["river HalfSpaceTrees"] = river_trees
    return found
