"""Equal elements in topk and bottomk: the heap for one step and that for many at once agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.promql import ties

CASES = [
    # Of two ones the first was at the root, and made room for the 2.
    ([1, 1, 2], 2, [2, 1]),
    ([2, 1, 1], 2, [0, 1]),
    ([0, 0, 0, 0], 2, [0, 1]),
    ([0, 0, 0, 1], 3, [3, 1, 2]),
    ([math.nan, math.nan, 1], 2, [2, 0]),
    ([math.nan, 1, math.nan], 2, [1, 0]),
]


@pytest.mark.parametrize(("values", "limit", "shown"), CASES)
def test_equals_at_the_limit_stay_as_in_a_heap(
    values: list[float], limit: int, shown: list[int]
) -> None:
    assert ties.shown(values, limit) == shown


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([None, math.nan, 0.0, 1.0, 2.0]), min_size=4, max_size=4),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 5),
)
def test_many_steps_at_once_keep_what_each_keeps_alone(
    rows: list[list[float | None]], limit: int
) -> None:
    values = np.array([[0.0 if cell is None else cell for cell in row] for row in rows])
    present = np.array([[cell is not None for cell in row] for row in rows])
    found = ties.kept(values, present, limit)
    for step in range(values.shape[1]):
        here = np.flatnonzero(present[:, step])
        alone = ties.shown(values[here, step].tolist(), limit)
        assert set(np.flatnonzero(found[:, step])) == set(here[alone].tolist())
