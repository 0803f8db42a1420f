"""Paired comparison of slices of one run: how much longer is a step in the second kind?

A machine drifts (clock rate, neighbours, caches), so slices are compared only with their immediate
neighbours. Each pair gives one logarithm of a ratio; drift and noise that both slices share cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of a run, in seconds of CLOCK_MONOTONIC. `treated`: the agent ran.

    `cpu_seconds`: what all threads of all ranks used in it.
    """

    start: float
    end: float
    treated: bool
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """Treated over untreated: geometric mean of the pairs' ratios, and its 95 % interval."""

    value: float
    low: float
    high: float
    pairs: int


def step_seconds(slice_: Slice, ranks: Sequence[NDArray[np.float64]]) -> float:
    """The median step of a slice, averaged over ranks.

    `ranks`: per rank float64[steps], when each step ended; a step begins where the one before
    ends. Steps that are not wholly inside do not count. Raises ValueError for a slice without any.
    """
    medians = []
    for ends in ranks:
        inside = ends[(ends >= slice_.start) & (ends <= slice_.end)]
        if len(inside) < 2:
            raise ValueError(f"no step between {slice_.start:.1f} s and {slice_.end:.1f} s")
        medians.append(float(np.median(np.diff(inside))))
    return sum(medians) / len(medians)


def step_cpu_seconds(slice_: Slice, ranks: Sequence[NDArray[np.float64]]) -> float:
    """The CPU time of a mean step of a slice, all ranks together. Arguments as `step_seconds`."""
    ends = ranks[0]
    return slice_.cpu_seconds / int(((ends >= slice_.start) & (ends <= slice_.end)).sum())


def compare(pairs: Sequence[tuple[float, float]], seed: int = 0) -> Ratio:
    """Ratio of (untreated, treated) step times; the interval is a bootstrap over pairs.

    Percentile interval, Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.
    """
    logs = np.log([treated / untreated for untreated, treated in pairs])
    chosen = np.random.default_rng(seed).integers(0, len(logs), (RESAMPLES, len(logs)))
    low, high = np.percentile(logs[chosen].mean(axis=1), [2.5, 97.5])
    return Ratio(float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high)), len(logs))
