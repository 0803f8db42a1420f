"""Running aggregates over rows: what `sum by (…)` and its kin have seen so far.

G groups, T steps, R rows at a time. Rows are folded in the vector's order, one after another, so
that a group's result has the bits of a plain loop over its series, however the rows are cut into
parts: over a long axis row by row, over a short one all groups side by side.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.promql.summation import LARGEST_PLAIN, NEUTRAL, add, two_sum
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Float64Array

# From this many steps on, a call of numpy costs less than its work on one row.
LONG_AXIS = 192
# Groups of more rows than this are folded one by one, the rest side by side.
FEW_ROWS = 64

# Up to here a loop in Python over the values of a large group is quicker than numpy's calls.
FEW_STEPS = 4

# Rows and the groups that each of them goes to, no group twice; or one group and its many rows.
Turn: TypeAlias = "tuple[IndexArray, IndexArray]"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some rows of a vector. `values`: float64[R, T]; `present`: bool[R, T]; `groups`: [R]."""

    values: Float64Array
    present: BoolArray
    groups: IndexArray

    def only(self, chosen: BoolArray) -> Rows:
        """Some of the rows, bool[R]."""
        return Rows(self.values[chosen], self.present[chosen], self.groups[chosen])

    def by_group(self) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Row numbers ordered by group, where each group starts in there, and which it is."""
        order = np.argsort(self.groups, kind="stable")
        ordered = self.groups[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        return order, starts, ordered[starts]

    def turns(self, most: int) -> Iterator[Turn]:
        """The first rows of all groups, then the second, …, of groups with at most `most` rows."""
        order, starts, numbers = self.by_group()
        sizes = np.diff(np.append(starts, order.size))
        chosen = sizes <= most
        starts, numbers, sizes = starts[chosen], numbers[chosen], sizes[chosen]
        for place in range(int(sizes.max(initial=0))):
            having = sizes > place
            yield order[starts[having] + place], numbers[having]

    def large(self, most: int) -> Iterator[tuple[IndexArray, int]]:
        """The rows of each group with more than `most`."""
        order, starts, numbers = self.by_group()
        stops = np.append(starts[1:], order.size)
        for which in np.flatnonzero(stops - starts > most).tolist():
            yield order[starts[which] : stops[which]], int(numbers[which])


class Fold:
    """Aggregates of G groups over T steps. `seen`: bool[G, T], where any series was present."""

    def __init__(self, groups: int, steps: int) -> None:
        self.shape = (groups, steps)
        self.seen = np.zeros(self.shape, dtype=np.bool_)

    def add(self, rows: Rows) -> None:
        """Take in rows that come after all earlier ones."""
        if not rows.groups.size:
            return
        if self.shape[1] >= LONG_AXIS:
            self._see_rows(rows)
        else:
            self._see_groups(rows)
        self.fold(rows)

    def _see_rows(self, rows: Rows) -> None:
        for row, group in enumerate(rows.groups.tolist()):
            self.seen[group] |= rows.present[row]

    def _see_groups(self, rows: Rows) -> None:
        order, starts, numbers = rows.by_group()
        self.seen[numbers] |= np.logical_or.reduceat(rows.present[order], starts, axis=0)

    def fold(self, rows: Rows) -> None:
        """Update everything but `seen`."""
        raise NotImplementedError

    def result(self) -> Float64Array:
        """float64[G, T]; where nothing was seen it means nothing."""
        raise NotImplementedError


class Group(Fold):
    """1."""

    def fold(self, rows: Rows) -> None:
        """Nothing to do."""

    def result(self) -> Float64Array:
        """See `Fold`."""
        return np.ones(self.shape)


def seen_by_group(present: BoolArray, groups: IndexArray, count: int) -> BoolArray:
    """Where any row of each group is present: bool[G, T] from bool[R, T] and the groups, [R]."""
    fold = Group(count, present.shape[1])
    fold.add(Rows(np.broadcast_to(0.0, present.shape), present, groups))
    return fold.seen


class Count(Fold):
    """How many series are present."""

    def __init__(self, groups: int, steps: int) -> None:
        super().__init__(groups, steps)
        self.count = np.zeros(self.shape)

    def fold(self, rows: Rows) -> None:
        """See `Fold`."""
        if self.shape[1] >= LONG_AXIS:
            for row, group in enumerate(rows.groups.tolist()):
                self.count[group] += rows.present[row]
            return
        order, starts, numbers = rows.by_group()
        self.count[numbers] += np.add.reduceat(
            rows.present[order].astype(np.float64), starts, axis=0
        )

    def result(self) -> Float64Array:
        """See `Fold`."""
        return self.count


def count_by_group(present: BoolArray, groups: IndexArray, count: int) -> Float64Array:
    """How many rows of each group are present: float64[G, T] from bool[R, T] and groups, [R]."""
    fold = Count(count, present.shape[1])
    fold.add(Rows(np.broadcast_to(0.0, present.shape), present, groups))
    return fold.count


class Sum(Fold):
    """Compensated sums, as Prometheus adds them up.

    The error of each addition is Knuth's TwoSum, which is exact for either order of magnitudes and
    so has the bits of Neumaier's. Once a sum is infinite or NaN it stays so, and its carry, which
    is NaN by then, is left out.
    """

    def __init__(self, groups: int, steps: int) -> None:
        super().__init__(groups, steps)
        self.total = np.full(self.shape, NEUTRAL)
        self.carry = np.zeros(self.shape)
        self._scratch = np.empty((3, steps))

    def fold(self, rows: Rows) -> None:
        """See `Fold`."""
        held = rows.values if rows.present.all() else np.where(rows.present, rows.values, NEUTRAL)
        if self.shape[1] >= LONG_AXIS:
            for row, group in enumerate(rows.groups.tolist()):
                self._add_row(held[row], self.total[group], self.carry[group])
            return
        for members, group in rows.large(FEW_ROWS):
            self._add_many(held[members], group)
        for members, groups in rows.turns(FEW_ROWS):
            self.total[groups], lost = two_sum(self.total[groups], held[members])
            self.carry[groups] += lost

    def _add_row(self, row: Float64Array, total: Float64Array, carry: Float64Array) -> None:
        """One more value at each step, in place."""
        new, part, rest = self._scratch
        np.add(total, row, out=new)
        np.subtract(new, total, out=part)
        np.subtract(new, part, out=rest)
        np.subtract(total, rest, out=rest)
        np.subtract(row, part, out=part)
        np.add(rest, part, out=rest)
        np.add(carry, rest, out=carry)
        total[...] = new

    def _add_many(self, held: Float64Array, group: int) -> None:
        """Many values at each of few steps: numpy's accumulate adds strictly in order."""
        totals = np.add.accumulate(np.concatenate([self.total[None, group], held]), axis=0)
        _, lost = two_sum(totals[:-1], held)
        carries = np.concatenate([self.carry[None, group], lost])
        self.total[group] = totals[-1]
        self.carry[group] = np.add.accumulate(carries, axis=0)[-1]

    def result(self) -> Float64Array:
        """See `Fold`."""
        return np.where(np.isfinite(self.total), self.total + self.carry, self.total)


class Average(Fold):
    """Means: the compensated sum over the count, until that sum would overflow.

    From there on the mean is updated incrementally, as in Prometheus. Only groups with a value so
    large that this could happen, `risky`, are watched for it.
    """

    def __init__(self, groups: int, steps: int) -> None:
        super().__init__(groups, steps)
        self.sums = Sum(groups, steps)
        self.counts = Count(groups, steps)
        self.risky = np.zeros(groups, dtype=np.bool_)
        self.mean = np.zeros(self.shape)
        self.incremental = np.zeros(self.shape, dtype=np.bool_)

    def fold(self, rows: Rows) -> None:
        """See `Fold`."""
        large = (np.abs(np.where(rows.present, rows.values, 0.0)) > LARGEST_PLAIN).any(axis=1)
        self.risky[rows.groups[large]] = True
        watched = self.risky[rows.groups]
        if watched.any():
            self._fold_watched(rows.only(watched))
            rows = rows.only(~watched)
        if not rows.groups.size:
            return
        self.sums.fold(rows)
        self.counts.fold(rows)

    def _fold_watched(self, rows: Rows) -> None:
        sums, counts = self.sums, self.counts
        for members, groups in rows.turns(rows.groups.size):
            value, here = rows.values[members], rows.present[members]
            count = counts.count[groups] + here
            total, carry, mean = sums.total[groups], sums.carry[groups], self.mean[groups]
            was = self.incremental[groups]
            new_total, new_carry = add(value, total, carry)
            now = here & (was | (np.isinf(new_total) & (count > 1)))
            turned = now & ~was
            before = np.maximum(count - 1, 1)
            mean = np.where(turned, total / before, mean)
            carry = np.where(turned, carry / before, carry)
            share = (count - 1) / count
            new_mean, mean_carry = add(value / count, share * mean, share * carry)
            direct = here & ~now
            counts.count[groups] = count
            self.mean[groups] = np.where(now, new_mean, mean)
            sums.total[groups] = np.where(direct, new_total, total)
            sums.carry[groups] = np.where(now, mean_carry, np.where(direct, new_carry, carry))
            self.incremental[groups] = was | now

    def result(self) -> Float64Array:
        """See `Fold`."""
        count, total, carry = self.counts.count, self.sums.total, self.sums.carry
        direct = np.where(np.isfinite(total), total / count + carry / count, total)
        return np.where(self.incremental, self.mean + carry, direct)


class Extreme(Fold):
    """The value that beats all before it; any number beats NaN, and of equals the first stays."""

    def __init__(
        self,
        groups: int,
        steps: int,
        beats: Callable[[Float64Array, Float64Array], BoolArray],
        reduce: np.ufunc,
    ) -> None:
        super().__init__(groups, steps)
        self.best = np.full(self.shape, np.nan)
        self._beats, self._reduce = beats, reduce

    def fold(self, rows: Rows) -> None:
        """See `Fold`."""
        held = rows.values if rows.present.all() else np.where(rows.present, rows.values, np.nan)
        if self.shape[1] >= LONG_AXIS:
            for row, group in enumerate(rows.groups.tolist()):
                self._take(held[row], slice(group, group + 1))
        elif (np.signbit(held) & (held == 0)).any():
            # Which of 0 and -0 a reduction keeps is not said.
            for members, groups in rows.turns(rows.groups.size):
                self._take(held[members], groups)
        else:
            order, starts, numbers = rows.by_group()
            self._take(self._reduce.reduceat(held[order], starts, axis=0), numbers)

    def _take(self, value: Float64Array, groups: IndexArray | slice) -> None:
        best = self.best[groups]
        self.best[groups] = np.where(self._beats(value, best) | np.isnan(best), value, best)

    def result(self) -> Float64Array:
        """See `Fold`."""
        return self.best


class Variance(Fold):
    """Welford's update, uncompensated here as in Prometheus; 0 for a constant."""

    def __init__(self, groups: int, steps: int) -> None:
        super().__init__(groups, steps)
        self.squares, self.mean, self.count = (np.zeros(self.shape) for _ in range(3))

    def fold(self, rows: Rows) -> None:
        """See `Fold`."""
        if self.shape[1] >= LONG_AXIS:
            for row, group in enumerate(rows.groups.tolist()):
                here = slice(group, group + 1)
                self._take(rows.values[row, None], rows.present[row, None], here)
            return
        if self.shape[1] > FEW_STEPS:
            few = rows.groups.size
        else:
            few = FEW_ROWS
            for members, group in rows.large(few):
                self._take_many(rows.values[members], rows.present[members], group)
        for members, groups in rows.turns(few):
            self._take(rows.values[members], rows.present[members], groups)

    def _take_many(self, values: Float64Array, present: BoolArray, group: int) -> None:
        """Many values at very few steps, where a plain loop is quickest."""
        for step in range(self.shape[1]):
            squares, mean, count = (
                float(state[group, step]) for state in (self.squares, self.mean, self.count)
            )
            for value in values[present[:, step], step].tolist():
                count += 1
                if count == 1:
                    squares, mean = (0.0 if math.isfinite(value) else math.nan), value
                    continue
                away = value - mean
                mean += away / count
                squares += away * (value - mean)
            self.squares[group, step], self.mean[group, step] = squares, mean
            self.count[group, step] = count

    def _take(self, value: Float64Array, here: BoolArray, groups: IndexArray | slice) -> None:
        squares, mean = self.squares[groups], self.mean[groups]
        first = here & (self.count[groups] == 0)
        count = self.count[groups] + here
        away = value - mean
        new_mean = np.where(first, value, mean + away / count)
        start = np.where(np.isfinite(value), 0.0, np.nan)
        new_squares = np.where(first, start, squares + away * (value - new_mean))
        self.count[groups] = count
        self.mean[groups] = np.where(here, new_mean, mean)
        self.squares[groups] = np.where(here, new_squares, squares)

    def result(self) -> Float64Array:
        """See `Fold`."""
        return self.squares / self.count


class Deviation(Variance):
    """The square root of the variance."""

    def result(self) -> Float64Array:
        """See `Fold`."""
        return np.sqrt(super().result())


def _largest(groups: int, steps: int) -> Fold:
    return Extreme(groups, steps, np.greater, np.fmax)


def _smallest(groups: int, steps: int) -> Fold:
    return Extreme(groups, steps, np.less, np.fmin)


FOLDS: Mapping[str, Callable[[int, int], Fold]] = {
    "avg": Average,
    "count": Count,
    "group": Group,
    "max": _largest,
    "min": _smallest,
    "stddev": Deviation,
    "stdvar": Variance,
    "sum": Sum,
}
