"""Kernels over windows against a plain loop over each window, written from the definitions."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.labels import Labels
from engine.promql.functions import over_time, rates, trends
from engine.promql.rows import Rows
from engine.promql.windows import Kernel, Windows, fold
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable

Window = list[tuple[int, float]]
Reference = "Callable[[Window, int, int], float | None]"

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.integers(0, 5).map(float),
    st.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e100, -1e100, 1e15]),
)


def reference_max(window: Window, _end: int, _range: int) -> float | None:
    numbers = [value for _, value in window if not math.isnan(value)]
    return max(numbers) if numbers else (math.nan if window else None)


def reference_min(window: Window, _end: int, _range: int) -> float | None:
    numbers = [value for _, value in window if not math.isnan(value)]
    return min(numbers) if numbers else (math.nan if window else None)


def reference_count(window: Window, _end: int, _range: int) -> float | None:
    return float(len(window)) if window else None


def reference_last(window: Window, _end: int, _range: int) -> float | None:
    return window[-1][1] if window else None


def reference_changes(window: Window, _end: int, _range: int) -> float | None:
    if not window:
        return None
    pairs = [(one[1], two[1]) for one, two in itertools.pairwise(window)]
    return float(sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairs))


def reference_resets(window: Window, _end: int, _range: int) -> float | None:
    if not window:
        return None
    return float(sum(two[1] < one[1] for one, two in itertools.pairwise(window)))


def extrapolate(window: Window, end: int, width: int, *, counter: bool) -> float | None:
    """The increase stretched to the window's ends, from Prometheus' documentation of rate."""
    if len(window) < 2:
        return None
    (first_ms, first), (last_ms, last) = window[0], window[-1]
    increase = last - first
    if counter:
        for (_, before), (_, after) in itertools.pairwise(window):
            if after < before:
                increase += before
    sampled = (last_ms - first_ms) / 1000
    spacing = sampled / (len(window) - 1)
    to_start, to_end = (first_ms - (end - width)) / 1000, (end - last_ms) / 1000
    if to_start >= spacing * 1.1:
        to_start = spacing / 2
    if to_end >= spacing * 1.1:
        to_end = spacing / 2
    if counter and increase > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / increase))
    return increase * ((sampled + to_start + to_end) / sampled)


def reference_increase(window: Window, end: int, width: int) -> float | None:
    return extrapolate(window, end, width, counter=True)


def reference_delta(window: Window, end: int, width: int) -> float | None:
    return extrapolate(window, end, width, counter=False)


def reference_idelta(window: Window, _end: int, _range: int) -> float | None:
    return window[-1][1] - window[-2][1] if len(window) > 1 else None


def reference_stddev(window: Window, _end: int, _range: int) -> float | None:
    values = [value for _, value in window]
    if not values:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def reference_deriv(window: Window, _end: int, _range: int) -> float | None:
    if len(window) < 2:
        return None
    values = [value for _, value in window]
    if all(value == values[0] for value in values):
        return math.nan if math.isinf(values[0]) else 0.0
    if not all(map(math.isfinite, values)):
        return math.nan
    origin = window[0][0]
    times = [(time - origin) / 1000 for time, _ in window]
    mean_t, mean_v = math.fsum(times) / len(times), math.fsum(values) / len(values)
    covariance = math.fsum((t - mean_t) * (v - mean_v) for t, v in zip(times, values, strict=True))
    return covariance / math.fsum((t - mean_t) ** 2 for t in times)


EXACT = [
    ("max_over_time", over_time.max_over_time, reference_max),
    ("min_over_time", over_time.min_over_time, reference_min),
    ("count_over_time", over_time.count_over_time, reference_count),
    ("last_over_time", over_time.last_over_time, reference_last),
    ("changes", rates.changes, reference_changes),
    ("resets", rates.resets, reference_resets),
    ("increase", rates.increase, reference_increase),
    ("delta", rates.delta, reference_delta),
    ("idelta", rates.idelta, reference_idelta),
]
CLOSE = [
    ("stddev_over_time", over_time.stddev_over_time, reference_stddev),
    ("deriv", trends.deriv, reference_deriv),
]


@st.composite
def sampled_series(
    draw: st.DrawFn, numbers: st.SearchStrategy[float] = NUMBERS
) -> list[tuple[list[int], list[float]]]:
    """A few series with jittered times; some share theirs."""
    series = []
    times: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        if not times or draw(st.booleans()):
            gap = draw(st.sampled_from([st.integers(1, 40_000), st.just(10_000)]))
            gaps = draw(st.lists(gap, min_size=1, max_size=16))
            times = np.cumsum(gaps).tolist()
        values = draw(st.lists(numbers, min_size=len(times), max_size=len(times)))
        series.append((times, values))
    return series


def run(
    kernel: Kernel, series: list[tuple[list[int], list[float]]], ends: list[int], width: int
) -> list[list[float | None]]:
    arrays = [(np.array(times, dtype=np.int64), np.array(values)) for times, values in series]
    end = np.array(ends, dtype=np.int64)
    labels = tuple(Labels.of(row=str(row)) for row in range(len(series)))
    found = [Series(own, *pair) for own, pair in zip(labels, arrays, strict=True)]
    groups = tuple(Rows.of(found).samples())
    windows = Windows(labels, (False,) * len(labels), groups, end, end, width)
    with np.errstate(all="ignore"):
        values, present = fold(windows, kernel)
    return [
        [value if here else None for value, here in zip(*row, strict=True)]
        for row in zip(values.tolist(), present.tolist(), strict=True)
    ]


def expected(
    reference: Callable[[Window, int, int], float | None],
    series: list[tuple[list[int], list[float]]],
    ends: list[int],
    width: int,
) -> list[list[float | None]]:
    return [
        [
            reference(
                [
                    (time, value)
                    for time, value in zip(times, values, strict=True)
                    if end - width < time <= end
                ],
                end,
                width,
            )
            for end in ends
        ]
        for times, values in series
    ]


ENDS = st.one_of(
    st.lists(st.integers(0, 400_000), min_size=1, max_size=8).map(sorted),
    st.builds(lambda start, step: list(range(start, 200_000, step)), *[st.just(10_000)] * 2),
    st.builds(lambda start, step: list(range(start, 200_000, step)), *[st.just(20_000)] * 2),
)
WIDTHS = st.sampled_from([1, 5_000, 30_000, 100_000, 500_000])


@pytest.mark.parametrize(
    ("kernel", "reference"), [row[1:] for row in EXACT], ids=[r[0] for r in EXACT]
)
@settings(max_examples=40, deadline=None)
@given(series=sampled_series(), ends=ENDS, width=WIDTHS)
def test_a_kernel_gives_the_very_bits_of_a_loop_over_each_window(
    kernel: Kernel,
    reference: Callable[[Window, int, int], float | None],
    series: list[tuple[list[int], list[float]]],
    ends: list[int],
    width: int,
) -> None:
    with np.errstate(all="ignore"):
        wanted = expected(reference, series, ends, width)
    assert repr(run(kernel, series, ends, width)) == repr(wanted)


@pytest.mark.parametrize(
    ("kernel", "reference"), [row[1:] for row in CLOSE], ids=[r[0] for r in CLOSE]
)
@settings(max_examples=40, deadline=None)
@given(
    series=sampled_series(st.one_of(st.floats(-1e3, 1e3), st.just(math.nan), st.just(7.0))),
    ends=ENDS,
    width=WIDTHS,
)
def test_a_moment_kernel_agrees_with_an_exact_sum_over_each_window(
    kernel: Kernel,
    reference: Callable[[Window, int, int], float | None],
    series: list[tuple[list[int], list[float]]],
    ends: list[int],
    width: int,
) -> None:
    got = run(kernel, series, ends, width)
    for row, wanted in zip(got, expected(reference, series, ends, width), strict=True):
        for one, other in zip(row, wanted, strict=True):
            if one is None or other is None:
                assert one is other
            else:
                assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)


@given(value=st.floats(allow_nan=False, allow_infinity=False), count=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_a_constant_has_standard_deviation_exactly_zero(value: float, count: int) -> None:
    times = [number * 1000 for number in range(count)]
    (row,) = run(over_time.stddev_over_time, [(times, [value] * count)], [times[-1]], 10**6)
    assert row == [0.0]


@given(
    series=sampled_series(st.one_of(st.floats(-1e9, 1e9), st.sampled_from([1e15, -1e15, 0.1]))),
    ends=ENDS,
    width=WIDTHS,
)
@settings(max_examples=60, deadline=None)
def test_sums_and_averages_are_those_of_exact_arithmetic(
    series: list[tuple[list[int], list[float]]], ends: list[int], width: int
) -> None:
    def exact(window: Window, _end: int, _range: int) -> float | None:
        return math.fsum(value for _, value in window) if window else None

    def mean(window: Window, _end: int, _range: int) -> float | None:
        return math.fsum(value for _, value in window) / len(window) if window else None

    for kernel, reference in ((over_time.sum_over_time, exact), (over_time.avg_over_time, mean)):
        got = run(kernel, series, ends, width)
        wanted = expected(reference, series, ends, width)
        for one, other in zip(itertools.chain(*got), itertools.chain(*wanted), strict=True):
            assert one == other or one == pytest.approx(other, rel=1e-12, abs=1e-14)


def test_an_average_survives_a_sum_that_overflows() -> None:
    values = [1.7e308] * 4
    (row,) = run(over_time.avg_over_time, [([1, 2, 3, 4], values)], [4], 100)
    assert row == [pytest.approx(1.7e308, rel=1e-15)]


def test_an_infinity_spoils_only_the_windows_that_hold_it() -> None:
    times = [1000 * number for number in range(6)]
    values = [1.0, 2.0, math.inf, 3.0, 4.0, math.nan]
    (row,) = run(over_time.sum_over_time, [(times, values)], times, 2000)
    assert repr(row) == repr([1.0, 3.0, math.inf, math.inf, 7.0, math.nan])


def test_resets_are_corrected_inside_the_window_so_that_a_huge_counter_keeps_its_increments() -> (
    None
):
    times = [10_000 * number for number in range(6)]
    values = [1e15, 1e15 + 1, 1e15 + 2, 0.0, 1.0, 2.0]
    (row,) = run(rates.increase, [(times, values)], [20_000, 50_000], 21_000)
    assert row[0] == pytest.approx(2 * 1.05)
    # The second window starts at 0, where a counter is never stretched below its zero point.
    assert row[1] == 2.0
