"""How many collectives make a step, where nothing marks steps: from their sequence alone. Pure.

A training loop issues the same collectives over and over. Each is known by a symbol (its operation,
its size where that is known) and its time. A lag is a period when what was issued that many
collectives later is the same again, far more often than chance would have it.

    score(lag) = mean over symbols k, weighted by the square root of their share f_k, of
                 (m_k - f_k) / (1 - f_k),
                 m_k: the share of the k at i that meet a k at i + lag

which is Cohen's kappa (1960), symbol by symbol: 0 by chance, 1 for a sequence that repeats exactly.
The square root lets a rare collective that closes an accumulation of gradients (AAAAB) weigh
enough that the inner repetition (A) is not taken for the step.

    confidence = score(period) - half of the best score of a lag that is no multiple of it

A second rhythm, such as micro-batches in a step, or a log line every ten steps, therefore shows in
a lower confidence. Where all symbols are the same, the pauses between them tell steps apart, if
some are at least four times longer than the others; where even these are alike, nothing does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

NANOSECONDS = 1e9
# A period must be seen so often in the window, or its repetition is an accident.
MIN_REPEATS = 4
# Fewer collectives than this tell nothing.
MIN_LENGTH = 24
# Agreement beyond chance below which the sequence is called aperiodic.
MIN_SCORE = 0.5
# The shortest lag within this of the best one is the period: its multiples fit as well.
TOLERANCE = 0.05
# Pauses are of two kinds where their geometric means differ by this factor at least.
MIN_PAUSE_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Period:
    """`collectives` make one step of `seconds` (the median); `confidence` within [0, 1]."""

    collectives: int
    seconds: float
    confidence: float


class Sequence:
    """The last `capacity` collectives of one process, as (symbol, nanoseconds)."""

    def __init__(self, capacity: int) -> None:
        self._marks: deque[tuple[int, int]] = deque(maxlen=capacity)
        self.total = 0

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, symbol: int, time_ns: int) -> None:
        """A collective was issued."""
        self._marks.append((symbol, time_ns))
        self.total += 1

    def period(self) -> Period | None:
        """The period now; None while there is none."""
        if len(self._marks) < MIN_LENGTH:
            return None
        marks = np.array(self._marks, dtype=np.int64)
        return find_period(marks[:, 0], marks[:, 1])


def find_period(symbols: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> Period | None:
    """The period of a sequence, oldest first; None where it has none.

    `symbols` and `times` (nanoseconds, ascending): [n]. Costs n^2 / 4 comparisons.
    """
    if len(symbols) < MIN_LENGTH:
        return None
    _, codes = np.unique(symbols, return_inverse=True)
    if not codes.any():
        codes = pauses(times)
    score = scores(codes, len(codes) // MIN_REPEATS)
    if not len(score) or score.max() < MIN_SCORE:
        return None
    lag = int(np.argmax(score >= score.max() - TOLERANCE)) + 1
    lags = np.arange(1, len(score) + 1)
    rivals = score[lags % lag != 0]
    rival = float(rivals.max(initial=0.0))
    same = codes[:-lag] == codes[lag:]
    seconds = float(np.median((times[lag:] - times[:-lag])[same])) / NANOSECONDS
    confidence = min(1.0, max(0.0, float(score[lag - 1]) - rival / 2))
    return Period(lag, seconds, confidence)


def scores(codes: npt.NDArray[np.int64], longest: int) -> npt.NDArray[np.float64]:
    """score(lag) for lags 1 to `longest`: [longest]; empty where all codes are the same.

    `codes`: [n], numbers from 0 on.
    """
    counts = np.bincount(codes)
    shares = counts / len(codes)
    # A symbol that came once or twice has no rhythm that could be judged.
    judged = (counts >= MIN_REPEATS - 1) & (shares < 1)
    if not judged.any():
        return np.empty(0)
    weights = np.sqrt(shares) * judged
    weights /= weights.sum()
    chance = np.where(judged, shares, 0.0)
    result = np.empty(longest)
    for lag in range(1, longest + 1):
        early = codes[:-lag]
        met = np.bincount(early[early == codes[lag:]], minlength=len(counts))
        seen = np.maximum(np.bincount(early, minlength=len(counts)), 1)
        result[lag - 1] = weights @ ((met / seen - chance) / (1 - chance))
    return result


def pauses(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 for each collective that a long pause precedes, 0 for the others: [n].

    All 0 where pauses are of one kind. The threshold is Otsu's (1979) on the logarithms: the cut
    that leaves the least variance within the two kinds.
    """
    gaps = np.log(np.maximum(np.diff(times, prepend=times[0]), 1).astype(np.float64))
    gaps[0] = np.median(gaps)
    ordered = np.sort(gaps)
    sums = np.cumsum(ordered)[:-1]
    below = np.arange(1, len(ordered))
    above = len(ordered) - below
    low, high = sums / below, (ordered.sum() - sums) / above
    cut = int(np.argmax(below * above * (high - low) ** 2))
    if high[cut] - low[cut] < np.log(MIN_PAUSE_FACTOR):
        return np.zeros(len(times), dtype=np.int64)
    threshold = (ordered[cut] + ordered[cut + 1]) / 2
    return np.asarray(gaps > threshold, dtype=np.int64)
