"""Paired comparison: how much longer does something take in the second kind?

A machine drifts (clock rate, neighbours, caches), so a measurement is compared only with one right
beside it. Each pair gives one logarithm of a ratio; drift and noise that both share cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probes.budget.bounds import student

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of a run, in seconds of CLOCK_MONOTONIC. `treated`: the probes were on.

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


def compare(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Ratio of (untreated, treated) times; the interval is Student's t on the pairs' logarithms.

    Paired comparison as in G. Box, J. Hunter and W. Hunter, Statistics for Experimenters, 3.2. With
    one pair the interval is everything. Raises ValueError without a pair.
    """
    if not pairs:
        raise ValueError("no pair to compare")
    logs = np.log([treated / untreated for untreated, treated in pairs])
    mean, half = float(logs.mean()), math.inf
    if len(logs) > 1:
        half = student(len(logs) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), _exp(mean + half), len(logs))


def _exp(power: float) -> float:
    return math.exp(power) if power < 700 else math.inf
