"""Mean and variance that forget exponentially."""

from __future__ import annotations

import math


class FadingMoments:
    """Mean and population variance of values whose weights fade by `1 - alpha` with each new one.

    Weights are normalised from the first value on, so that there is no start value to forget: the
    first `1 / alpha` values weigh alike. Welford's form with weights (West 1979, "Updating mean and
    variance estimates"), so nothing cancels. No values: both are NaN.
    """

    __slots__ = ("keep", "mean", "variance", "weight")

    SIZE = 3

    def __init__(self, alpha: float) -> None:
        self.keep = 1.0 - alpha
        self.start()

    def start(self) -> None:
        """Know nothing."""
        self.weight = 0.0
        self.mean = math.nan
        self.variance = math.nan

    def update(self, value: float) -> None:
        """Take a finite value."""
        if not self.weight:
            self.weight, self.mean, self.variance = 1.0, value, 0.0
            return
        self.weight = self.weight * self.keep + 1.0
        share = 1.0 / self.weight
        delta = value - self.mean
        step = share * delta
        self.mean += step
        self.variance = (1.0 - share) * (self.variance + step * delta)

    def get(self) -> tuple[float, float]:
        """(mean, variance)."""
        return self.mean, self.variance

    def numbers(self) -> list[float]:
        """All that it knows, `SIZE` numbers."""
        return [self.weight, self.mean, self.variance]

    def restore(self, numbers: list[float]) -> None:
        """Become what `numbers` told."""
        self.weight, self.mean, self.variance = numbers
