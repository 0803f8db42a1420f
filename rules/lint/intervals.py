"""Closed intervals of numbers: what the values of an expression can be at most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, both included; NaN values are outside of any interval."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def point(self) -> bool:
        """Whether there is one number only."""
        return self.low == self.high

    def disjoint(self, other: Interval) -> bool:
        """Whether no number is in both."""
        return self.high < other.low or other.high < self.low

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: Interval) -> Interval:
        """What is in both; of disjoint ones the first."""
        return (
            self
            if self.disjoint(other)
            else Interval(max(self.low, other.low), min(self.high, other.high))
        )

    def monotonic(self, function: Callable[[float], float]) -> Interval:
        """The image under a function that never falls."""
        return Interval(_kept(function, self.low), _kept(function, self.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return _spanning(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return _spanning(*corners)

    def __truediv__(self, other: Interval) -> Interval:
        if other.low <= 0 <= other.high:
            return ANYTHING
        return self * Interval(1 / other.high, 1 / other.low)

    def __str__(self) -> str:
        if self.point:
            return _number(self.low)
        if math.isinf(self.high):
            return "anything" if math.isinf(self.low) else f"at least {_number(self.low)}"
        if math.isinf(self.low):
            return f"at most {_number(self.high)}"
        return f"between {_number(self.low)} and {_number(self.high)}"


ANYTHING: Final = Interval()
NOT_NEGATIVE: Final = Interval(0.0)


def _kept(function: Callable[[float], float], value: float) -> float:
    return value if math.isinf(value) else function(value)


def _spanning(*numbers: float) -> Interval:
    if any(math.isnan(number) for number in numbers):
        return ANYTHING
    return Interval(min(numbers), max(numbers))


def _number(value: float) -> str:
    return f"{value:.12g}"
