"""Running aggregates have the bits of a plain loop over a group's series, however rows are cut."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.promql import folding
from engine.promql.folding import FOLDS, Rows

NUMBERS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 1e16, -1e16, 3.0, 1e308, -1e308, 2.5e-308, math.inf, -math.inf,
     math.nan]
)  # fmt: skip
TAME = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1e16, -1e16, 3.0])


class Sums:
    """Kahan's sum in Neumaier's variant, one number at a time."""

    def __init__(self) -> None:
        self.total, self.carry = -0.0, 0.0

    def add(self, value: float) -> None:
        new = self.total + value
        if math.isinf(new):
            self.carry = 0.0
        elif abs(self.total) >= abs(value):
            self.carry += (self.total - new) + value
        else:
            self.carry += (value - new) + self.total
        self.total = new


def slow_sum(values: list[float]) -> float:
    sums = Sums()
    for value in values:
        sums.add(value)
    return sums.total if math.isinf(sums.total) else sums.total + sums.carry


def slow_average(values: list[float]) -> float:
    """As Prometheus: directly, until the sum overflows."""
    sums, mean, incremental = Sums(), 0.0, False
    for number, value in enumerate(values, start=1):
        if not incremental:
            before = (sums.total, sums.carry)
            sums.add(value)
            if number == 1 or not math.isinf(sums.total):
                continue
            incremental = True
            mean, carry = before[0] / (number - 1), before[1] / (number - 1)
        share = (number - 1) / number
        step = Sums()
        step.total, step.carry = share * mean, share * carry
        step.add(value / number)
        mean, carry = step.total, step.carry
    if incremental:
        return mean + carry
    count = len(values)
    if not math.isfinite(sums.total):
        return sums.total
    return sums.total / count + sums.carry / count


def slow_variance(values: list[float]) -> float:
    mean = squares = 0.0
    for number, value in enumerate(values, start=1):
        if number == 1:
            mean, squares = value, 0.0 if math.isfinite(value) else math.nan
            continue
        away = value - mean
        mean += away / number
        squares += away * (value - mean)
    return squares / len(values)


def slow_largest(values: list[float]) -> float:
    best = math.nan
    for value in values:
        if value > best or math.isnan(best):
            best = value
    return best


def slow_smallest(values: list[float]) -> float:
    best = math.nan
    for value in values:
        if value < best or math.isnan(best):
            best = value
    return best


SLOW = {
    "avg": slow_average,
    "count": lambda values: float(len(values)),
    "group": lambda _: 1.0,
    "max": slow_largest,
    "min": slow_smallest,
    "stddev": lambda values: float(np.sqrt(slow_variance(values))),
    "stdvar": slow_variance,
    "sum": slow_sum,
}


@st.composite
def vectors(draw: st.DrawFn) -> tuple[Rows, int, list[int]]:
    """Rows, the number of groups, and where the rows are cut."""
    height, steps = draw(st.integers(0, 12)), draw(st.integers(1, 6))
    numbers = draw(st.sampled_from([NUMBERS, TAME]))
    cells = draw(
        st.lists(
            st.tuples(numbers, st.booleans()), min_size=height * steps, max_size=height * steps
        )
    )
    groups = draw(st.integers(1, 4))
    owners = draw(st.lists(st.integers(0, groups - 1), min_size=height, max_size=height))
    cuts = draw(st.lists(st.integers(0, height), max_size=3))
    values = np.array([value for value, _ in cells], dtype=np.float64).reshape(height, steps)
    present = np.array([here for _, here in cells], dtype=np.bool_).reshape(height, steps)
    rows = Rows(values, present, np.array(owners, dtype=np.intp))
    return rows, groups, sorted([0, *cuts, height])


def bits(value: float) -> str:
    return "nan" if math.isnan(value) else value.hex()


@pytest.mark.parametrize("op", sorted(FOLDS))
@settings(max_examples=60, deadline=None)
@given(drawn=vectors(), long_axis=st.sampled_from([1, 1_000]), few_rows=st.sampled_from([1, 1_000]))
def test_a_fold_is_a_loop_over_each_groups_series(
    op: str, drawn: tuple[Rows, int, list[int]], long_axis: int, few_rows: int
) -> None:
    rows, groups, edges = drawn
    steps = rows.values.shape[1]
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(folding, "LONG_AXIS", long_axis)
        patch.setattr(folding, "FEW_ROWS", few_rows)
        fold = FOLDS[op](groups, steps)
        for start, stop in itertools.pairwise(edges):
            cut = slice(start, stop)
            fold.add(Rows(rows.values[cut], rows.present[cut], rows.groups[cut]))
        result = fold.result()
    for group in range(groups):
        members = np.flatnonzero(rows.groups == group)
        for step in range(steps):
            there = [int(row) for row in members if rows.present[row, step]]
            assert bool(fold.seen[group, step]) == bool(there)
            if there:
                with np.errstate(all="ignore"):
                    expected = SLOW[op]([float(rows.values[row, step]) for row in there])
                assert bits(float(result[group, step])) == bits(expected)


def test_a_large_group_and_many_small_ones_are_folded_alike() -> None:
    random = np.random.default_rng(3)
    values = random.normal(0, 1e9, (500, 1)) * 10.0 ** random.integers(-9, 9, (500, 1))
    groups = np.where(np.arange(500) % 2, 0, np.arange(500)).astype(np.intp)
    rows = Rows(values, np.ones(values.shape, dtype=np.bool_), groups)
    for op in ("sum", "avg", "stdvar"):
        with np.errstate(all="ignore"):
            fold = FOLDS[op](500, 1)
            fold.add(rows)
            result = fold.result()
        assert result[0, 0] == SLOW[op](values[groups == 0, 0].tolist())
        assert result[4, 0] == SLOW[op](values[groups == 4, 0].tolist())
