"""A line through whole numbers that rise as much as they fall is level, whatever the cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import evaluate
from engine.promql.value import Axis, Vector
from engine.series import Series
from rules.promql.parser import parse

if TYPE_CHECKING:
    from engine.series import Float64Array

SPACINGS = st.sampled_from([5_000, 7_000, 10_000, 10_003, 15_000])


def of(expr: str, values: list[float], start_ms: int, spacing_ms: int, axis: Axis) -> Float64Array:
    times = start_ms + np.arange(len(values)) * spacing_ms
    data = MemoryDataset((Series(Labels.of(__name__="x"), times, np.array(values)),))
    found = evaluate(parse(expr), axis, data).value
    assert isinstance(found, Vector)
    return found.values


@settings(max_examples=150, deadline=None)
@given(
    half=st.lists(st.integers(-1000, 1000), min_size=1, max_size=4),
    odd=st.booleans(),
    start=st.integers(1_700_000_000, 1_700_000_120),
    spacing=SPACINGS,
)
def test_what_is_the_same_from_both_ends_has_a_slope_of_exactly_0(
    half: list[int], start: int, spacing: int, *, odd: bool
) -> None:
    values = [float(one) for one in [*half, *([7] if odd else []), *half[::-1]]]
    last = start * 1000 + (len(values) - 1) * spacing
    assert of("deriv(x[5m])", values, start * 1000, spacing, Axis.instant(last)).tolist() == [[0.0]]


def test_a_rule_does_not_fire_on_what_goes_up_and_down_along_an_axis() -> None:
    values = [0.0, 5.0, 3.0, 3.0, 5.0, 0.0] * 200
    axis = Axis.span(1_700_000_050_000, 1_700_011_990_000, 60_000, rule=True)
    # The six samples of each minute are the same from both ends.
    found = of("deriv(x[1m])", values, 1_700_000_000_000, 10_000, axis)
    assert not found.any()
    ahead = of("predict_linear(x[1m], 600)", values, 1_700_000_000_000, 10_000, axis)
    assert np.all(ahead == ahead[0, 0])


@pytest.mark.parametrize(
    ("values", "start", "spacing", "ahead"),
    [
        ([-1, -3, -3, 1, 0], 1_699_999_110, 30, 0),
        ([0, -2, 1, -2, 1], 1_699_999_179, 7, 0),
        ([3, 2, 1], 1_700_000_000, 10, 10),
    ],
)
def test_a_line_that_crosses_0_is_exactly_0_there(
    values: list[float], start: int, spacing: int, ahead: int
) -> None:
    last = Axis.instant((start + (len(values) - 1) * spacing) * 1000)
    expr = f"predict_linear(x[5m], {ahead})"
    assert of(expr, values, start * 1000, spacing * 1000, last).tolist() == [[0.0]]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_least_slope_that_there_is_stays(scale: float) -> None:
    values = [scale * one for one in (3.0, -1.0, 4.0, 4.0, -1.0, 3.0)]
    values[-1] += np.spacing(values[-1])
    (found,) = of("deriv(x[5m])", values, 1_700_000_000_000, 1_000, Axis.instant(1_700_000_005_000))
    rise = values[-1] - values[0]
    assert found[0] == pytest.approx(rise * 2.5 / 17.5, rel=0.1)
