"""Compensated sums (Kahan, in Neumaier's variant), in the very order Prometheus adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.promql.windows import IndexArray
    from engine.series import Float64Array


def add(
    increment: Float64Array, total: Float64Array, carry: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """One step: the new totals and carries. An infinite total forgets its carry."""
    new = total + increment
    larger = np.abs(total) >= np.abs(increment)
    lost = np.where(larger, (total - new) + increment, (increment - new) + total)
    return new, np.where(np.isinf(new), 0.0, carry + lost)


# Adding this changes nothing, not even the sign of a zero.
NEUTRAL = -0.0

# No sum of fewer than 1e18 values of at most this magnitude overflows.
LARGEST_PLAIN = 1e290


def is_plain(values: Float64Array, largest: float = LARGEST_PLAIN) -> bool:
    """Whether sums of these stay finite, so that nothing infinite has to be looked out for."""
    if not values.size:
        return True
    # NaN is neither.
    return bool(values.max() <= largest and values.min() >= -largest)


def two_sum(one: Float64Array, other: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The rounded sums of plain values and exactly what rounding lost (Knuth)."""
    new = one + other
    part = new - one
    return new, (one - (new - part)) + (other - part)


def accumulated(values: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Totals and carries of plain values, [N, T], added along the first axis one by one: [T].

    The bits are those of `Sum`: numpy's accumulate adds strictly in order.
    """
    totals = np.add.accumulate(values, axis=0)
    _, lost = two_sum(totals[:-1], values[1:])
    if not lost.shape[0]:
        return totals[-1], np.zeros(values.shape[1])
    return totals[-1], np.add.accumulate(lost, axis=0)[-1]


@dataclass(slots=True)
class Sum:
    """Running compensated sums, one per cell; all arrays have the shape of the cells."""

    total: Float64Array
    carry: Float64Array

    @classmethod
    def of(cls, first: Float64Array) -> Sum:
        """One value added."""
        return cls(first.copy(), np.zeros(first.shape))

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Sum:
        """Nothing added yet."""
        return cls.of(np.zeros(shape))

    def add(self, increment: Float64Array, columns: IndexArray | slice) -> None:
        """Add to the cells in these columns (the last axis)."""
        at = (..., columns)
        self.total[at], self.carry[at] = add(increment, self.total[at], self.carry[at])

    def result(self) -> Float64Array:
        """The sums."""
        return self.total + self.carry


@dataclass(slots=True)
class Mean:
    """Running means: the compensated sum over the count, until that sum would overflow.

    From there on the mean is updated incrementally, as Prometheus does.
    """

    sum: Sum
    mean: Float64Array
    count: Float64Array
    incremental: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

    @classmethod
    def of(cls, first: Float64Array) -> Mean:
        """One value seen."""
        shape = first.shape
        return cls(Sum.of(first), np.zeros(shape), np.ones(shape), np.zeros(shape, np.bool_))

    def add(self, value: Float64Array, columns: IndexArray | slice) -> None:
        """One more value for the cells in these columns (the last axis)."""
        at = (..., columns)
        self.count[at] += 1
        total, carry, count = self.sum.total[at], self.sum.carry[at], self.count[at]
        was, mean = self.incremental[at], self.mean[at]
        new_total, new_carry = add(value, total, carry)
        now = was | np.isinf(new_total)
        if now.any():
            turned = now & ~was
            mean = np.where(turned, total / (count - 1), mean)
            carry = np.where(turned, carry / (count - 1), carry)
            share = (count - 1) / count
            new_mean, mean_carry = add(value / count, share * mean, share * carry)
            self.mean[at] = np.where(now, new_mean, mean)
            self.incremental[at] = now
            new_total = np.where(now, total, new_total)
            new_carry = np.where(now, mean_carry, new_carry)
        self.sum.total[at], self.sum.carry[at] = new_total, new_carry

    def result(self) -> Float64Array:
        """The means."""
        direct = self.sum.total / self.count + self.sum.carry / self.count
        return np.where(self.incremental, self.mean + self.sum.carry, direct)
