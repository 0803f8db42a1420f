"""Counts of one function in one process, though it is watched in slices only.

Time is cut into strata. In each lies one slice, at a place drawn anew, in which everything is
counted. A slice's rate times its stratum's length estimates the stratum's count without bias
(Horvitz and Thompson, A generalization of sampling without replacement from a finite universe,
1952, with the slice's share of its stratum as the probability of inclusion); strata add up. A load
cannot hide between the slices, as nobody knows where they will be.

The error bound is the greater of two, and the docstrings of bounds.py say of each when it holds:

- Student's t on the variance from successive differences of slices (J. von Neumann and others,
  1941; W. Cochran, Sampling Techniques, section 8.9): local, so a ramp does not widen it, and too
  large rather than too small where neighbouring strata differ;
- Hoeffding's bound for values within the range of rates that this process ever showed, seen when
  it was watched all the time too. It covers bursts that few slices or none have met.

To that are added: what the newest slice may not stand for, because its stratum is over; what the
reading of clock and counters leaves open at the edges of slices; and what is already shown but not
held up by a later slice, since a counter does not go back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probes.budget.bounds import bounded_mean, student

if TYPE_CHECKING:
    from probes.budget.bounds import Floats

# Until this many rates were seen, a range is not trusted: it goes from 0 to twice the most.
ENOUGH_RATES = 8


@dataclass(frozen=True, slots=True)
class Window:
    """A slice: `seconds` long and `slack` seconds uncertain at its edges, in the stratum that
    began at `start` and is `length` seconds long.
    """  # noqa: D205 - one sentence

    start: float
    length: float
    seconds: float
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """`values`: float64[counters], never falling. `bound`: as far as one may be off, at 95 %."""

    values: Floats
    bound: float


class Estimator:
    """Adds up what is exactly known and what slices tell. Times in seconds of one clock.

    `foreign`: the highest rates that other processes showed; as long as little is known of this
    one, it may be as fast.
    """

    def __init__(self, size: int, foreign: Floats | None = None) -> None:
        self._foreign = np.zeros(size) if foreign is None else foreign
        self._exact = np.zeros(size)
        self._shown = np.zeros(size)
        # Of closed strata: estimated counts, and what their reading left open.
        self._estimated = np.zeros(size)
        self._slack = np.zeros(size)
        self._lengths = self._squares = 0.0
        self._differences, self._square_differences = 0, np.zeros(size)
        self._rates = 0
        self._lowest, self._highest = np.full(size, np.inf), np.zeros(size)
        # The open stratum: since when, at which rate; None when everything is counted.
        self._since: float | None = None
        self._length = 0.0
        self._rate: Floats = np.zeros(size)
        self._sampled = False

    @property
    def rate(self) -> Floats:
        """Per second, in the newest slice or stretch that was noted."""
        return self._rate

    def count(self, delta: Floats) -> None:
        """Add what was counted while nothing was missed."""
        self._exact += delta

    def note(self, counted: Floats, seconds: float) -> None:
        """Remember a rate over about a slice's length as one that this process shows."""
        rate = counted / seconds
        if self._since is None:
            self._rate = rate
        self._rates += 1
        self._lowest = np.minimum(self._lowest, rate)
        self._highest = np.maximum(self._highest, rate)

    def note_idle(self) -> None:
        """Remember that this process also pauses."""
        self._rates += 1
        self._lowest = np.zeros_like(self._lowest)

    def begin(self, now: float, rate: Floats) -> None:
        """From now on only slices are watched; until the first, `rate` stands for them."""
        self._since, self._length, self._rate, self._sampled = now, 0.0, rate, False

    def add(self, window: Window, counted: Floats, trapped: float = 0.0) -> None:
        """A slice has been watched. `trapped`: the share of it that its traps took, below 1.

        A caller that keeps its thread busy makes the fewer calls the more of them are trapped in,
        one that waits for its next call does not: which it is cannot be seen, so the bound has it.
        """
        if self._since is None:
            raise ValueError("no slices are being watched")
        self.note(counted, window.seconds)
        rate = counted / window.seconds
        start = max(self._since, window.start)
        if self._sampled:
            self._differences += 1
            self._square_differences += (rate - self._rate) ** 2
            self._close(start)
        # Before the first slice of all nothing was known: it stands for that time too.
        self._since = start if self._sampled else self._since
        self._length = window.start + window.length - self._since
        self._rate, self._sampled = rate, True
        unsure = window.slack / window.seconds + trapped / (1 - trapped)
        self._slack += rate * window.length * unsure

    def end(self, now: float) -> None:
        """From now on everything is counted again."""
        if self._since is not None:
            self._close(now)
            self._since = None

    def at(self, now: float, counter: int = 0) -> Estimate:
        """What is known at a time, with the bound of one counter; times do not go back."""
        open_seconds = 0.0 if self._since is None else max(0.0, now - self._since)
        held = min(open_seconds, self._length)
        estimated = self._exact + self._estimated + self._rate * held
        # Beyond its stratum a slice is no better than all of them, and a counter never falls.
        estimated += np.minimum(self._rate, self._mean(held)) * (open_seconds - held)
        self._shown = np.maximum(self._shown, estimated)
        bound = self._sampling_error(counter, held)
        beyond = max(0.0, open_seconds - self._length)
        low, high = self._range(counter)
        rate = float(self._rate[counter])
        bound += max(high - rate, rate - low) * beyond
        bound += float(self._slack[counter] + self._shown[counter] - estimated[counter])
        return Estimate(self._shown.copy(), bound)

    def _mean(self, held: float) -> Floats:
        """The rate over all strata, `held` seconds of the open one among them."""
        lengths = self._lengths + held
        return (self._estimated + self._rate * held) / lengths if lengths > 0 else self._rate

    def _close(self, now: float) -> None:
        length = max(0.0, now - (self._since or 0.0))
        self._estimated += self._rate * length
        self._lengths += length
        self._squares += length**2

    def _range(self, counter: int) -> tuple[float, float]:
        """The rates that may occur, a little wider than those that were seen."""
        lowest, highest = float(self._lowest[counter]), float(self._highest[counter])
        if self._rates < ENOUGH_RATES:
            return 0.0, max(2 * highest, float(self._foreign[counter]))
        wider = (highest - lowest) / self._rates
        return max(lowest - wider, 0.0), highest + wider

    def _sampling_error(self, counter: int, held: float) -> float:
        lengths, squares = self._lengths + held, self._squares + held**2
        if lengths <= 0:
            return 0.0
        low, high = self._range(counter)
        mean = float(self._mean(held)[counter])
        bounded = bounded_mean(mean, low, high, lengths**2 / squares) * lengths
        quantile = student(2 * self._differences / 3)
        if quantile == float("inf"):
            return bounded  # too few slices for a variance: anything in the range is possible
        square = float(self._square_differences[counter])
        spread = quantile * math.sqrt(square / (2 * self._differences) * squares)
        return max(bounded, min(spread, (high - low) * lengths))
