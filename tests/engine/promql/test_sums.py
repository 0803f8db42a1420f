"""Sums across series: every shortcut has the bits of adding one series after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.labels import Labels
from engine.promql import aggregators
from engine.promql.frame import Frame
from engine.promql.grouping import Groups
from engine.promql.summation import Sum, accumulated

if TYPE_CHECKING:
    from engine.promql.aggregators import Aggregation

VALUES = st.sampled_from([0.0, -0.0, 0.1, 0.3, -7.25, 1e16, -1e16, 1e100, -1e100, 3.0, 2.0**-1074])


@st.composite
def frames(draw: st.DrawFn) -> tuple[Frame, Groups]:
    """Rows in up to three groups, some of them absent now and then."""
    count, steps = draw(st.integers(1, 9)), 3
    members = [draw(st.integers(0, 2)) for _ in range(count)]
    cells = st.lists(VALUES, min_size=count * steps, max_size=count * steps)
    values = np.array(draw(cells)).reshape(count, steps)
    flags = st.lists(st.booleans(), min_size=count * steps, max_size=count * steps)
    present = np.array(draw(flags)).reshape(count, steps)
    labels = tuple(Labels.of(group=str(group), row=str(row)) for row, group in enumerate(members))
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(members):
        rows.setdefault(group, []).append(row)
    largest = sorted(rows, key=lambda group: -len(rows[group]))
    groups = Groups(
        tuple(Labels.of(group=str(group)) for group in largest),
        tuple(np.array(rows[group], dtype=np.intp) for group in largest),
    )
    return Frame(labels, values, present, (False,) * count), groups


@pytest.mark.parametrize(
    ("quick", "guarded"),
    [
        (aggregators._sum, aggregators._guarded_sum),
        (aggregators._avg, aggregators._guarded_avg),
    ],
    ids=["sum", "avg"],
)
@settings(max_examples=150, deadline=None)
@given(drawn=frames())
def test_plain_values_sum_to_the_same_bits_as_guarded_ones(
    quick: Aggregation, guarded: Aggregation, drawn: tuple[Frame, Groups]
) -> None:
    frame, groups = drawn
    with np.errstate(all="ignore"):
        one, other = quick(frame, groups), guarded(frame, groups)
    seen = np.stack([frame.present[rows].any(axis=0) for rows in groups.members])
    assert one[seen].tolist() == other[seen].tolist()


@given(values=st.lists(VALUES, min_size=1, max_size=12))
def test_accumulating_adds_in_order(values: list[float]) -> None:
    total, carry = accumulated(np.array(values)[:, None])
    sums = Sum.of(np.array([values[0]]), plain=False)
    for value in values[1:]:
        sums.add(np.array([value]), slice(0, 1))
    assert (total.tolist(), carry.tolist()) == (sums.total.tolist(), sums.carry.tolist())


def test_the_sign_of_zero_survives_a_sum() -> None:
    labels = (Labels.of(r="a"), Labels.of(r="b"))
    frame = Frame(labels, np.array([[5.0], [-0.0]]), np.array([[False], [True]]), (False, False))
    groups = Groups((Labels(),), (np.array([0, 1], dtype=np.intp),))
    total, _ = aggregators._plain_sums(aggregators._held(frame), groups)
    assert np.signbit(cast("float", total[0, 0]))
