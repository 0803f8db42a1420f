"""What a rule may rely on, one line a test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.promql.engine import EvaluationError, Options
from engine.promql.value import Axis, Scalar
from engine.series import STALE_NAN, stale_mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

COUNTER = "10s\n steps_total{rank='0'} 0 1 2 3 4 5 6 7 8 9"
IMMEDIATE = Options(delayed_name_removal=False)


def rule(start: int, end: int, step: int) -> Axis:
    return Axis.span(start * 1000, end * 1000, step * 1000, rule=True)


def query(start: int, end: int, step: int) -> Axis:
    return Axis.span(start * 1000, end * 1000, step * 1000)


def test_a_rule_sees_no_sample_later_than_its_step_whatever_offset_or_at_asks_for(
    load: Callable[[str], Data],
) -> None:
    data = load(COUNTER)
    peek = "max_over_time(steps_total[1m] offset -30s)"
    series = '{rank="0"}'
    assert data.points(peek, rule(20, 60, 20))[series] == {20: 2, 40: 4, 60: 6}
    assert data.points(peek, query(20, 60, 20))[series] == {20: 5, 40: 7, 60: 9}
    assert data.points("steps_total @ 50", rule(40, 60, 10))['steps_total{rank="0"}'] == {
        40: 4,
        50: 5,
        60: 5,
    }


@pytest.mark.parametrize(
    "expr",
    [
        "steps_total offset -30s",
        "steps_total @ 80",
        "last_over_time(steps_total[30s] offset -20s)",
        "timestamp(steps_total offset -30s)",
        "timestamp(steps_total @ 80)",
        "max_over_time(steps_total[1m:10s] offset -30s)",
        "max_over_time(steps_total[1m:10s] @ 80)",
        "max_over_time((steps_total offset -30s)[1m:10s])",
        "max_over_time((steps_total @ end())[1m:10s])",
        "max_over_time(timestamp(steps_total offset -30s)[1m:10s])",
        "steps_total smoothed",
        "steps_total smoothed offset 5s",
        "increase(steps_total[25s] smoothed)",
        "increase(steps_total[25s] smoothed offset 5s)",
        "max_over_time((steps_total smoothed)[1m:15s])",
        "steps_total - start() + end()",
        "max_over_time((steps_total * 0 + end())[1m:15s])",
        "count_over_time(steps_total[step() + range() + 30s])",
        "max_over_time(steps_total[1m] offset -(step() + 30s))",
        "start() + end() + step() + vector(range())",
    ],
)
def test_a_rule_over_an_axis_is_instant_queries_over_data_that_end_at_each_step(
    load: Callable[[str], Data], expr: str
) -> None:
    values = COUNTER.split("} ")[1].split(" ")
    whole = load(COUNTER).points(expr, rule(20, 60, 20))
    cut: dict[str, dict[int, float]] = {}
    for end in (20, 40, 60):
        until = load(f"10s\n steps_total{{rank='0'}} {' '.join(values[: end // 10 + 1])}")
        for series, value in until.at(end, expr).items():
            cut.setdefault(series, {})[end] = value
    assert whole == cut
    assert cut


@pytest.mark.parametrize(
    ("expr", "in_a_rule", "in_a_query"),
    [
        ("steps_total smoothed", {25: 2, 45: 4, 65: 6}, {25: 2.5, 45: 4.5, 65: 6.5}),
        ("increase(steps_total[20s] smoothed)", {25: 1.5, 45: 1.5, 65: 1.5}, {25: 2, 45: 2, 65: 2}),
        ("increase(steps_total[20s] anchored)", {25: 2, 45: 2, 65: 2}, {25: 2, 45: 2, 65: 2}),
    ],
)
def test_a_rule_draws_no_line_to_a_sample_that_is_yet_to_come(
    load: Callable[[str], Data],
    expr: str,
    in_a_rule: dict[int, float],
    in_a_query: dict[int, float],
) -> None:
    data = load(COUNTER)
    (own,) = data.points(expr, rule(25, 65, 20)).values()
    assert own == in_a_rule
    (drawn,) = data.points(expr, query(25, 65, 20)).values()
    assert drawn == in_a_query


def test_at_start_and_end_mean_the_step_itself_in_a_rule_and_the_range_in_a_query(
    load: Callable[[str], Data],
) -> None:
    data = load(COUNTER)
    series = 'steps_total{rank="0"}'
    for anchor, fixed in (("start", 2), ("end", 6)):
        expr = f"steps_total @ {anchor}()"
        assert data.points(expr, rule(20, 60, 20))[series] == {20: 2, 40: 4, 60: 6}
        assert data.points(expr, query(20, 60, 20))[series] == dict.fromkeys((20, 40, 60), fixed)


def test_ranges_and_look_back_are_open_on_the_left(load: Callable[[str], Data]) -> None:
    data = load(COUNTER)
    assert data.at(60, "count_over_time(steps_total[20s])") == {'{rank="0"}': 2}
    assert data.at(389, "steps_total") == {'steps_total{rank="0"}': 9}
    assert data.at(390, "steps_total") == {}
    assert data.at(100, "steps_total", Options(lookback_ms=10_000)) == {}


def test_a_staleness_marker_ends_a_series_and_is_in_no_window(load: Callable[[str], Data]) -> None:
    data = load("10s\n wait 1 stale 3 NaN")
    assert data.at(10, "wait") == {}
    assert data.at(20, "wait") == {"wait": 3}
    assert math.isnan(data.at(30, "wait")["wait"])
    assert data.at(30, "count_over_time(wait[1m])") == {"{}": 3}


def test_the_staleness_marker_keeps_its_bits_and_is_no_ordinary_nan() -> None:
    values = np.array([1.0, STALE_NAN, np.nan])
    assert stale_mask(values).tolist() == [False, True, False]


def test_presence_is_a_mask_and_nan_is_present(load: Callable[[str], Data]) -> None:
    data = load("10s\n wait{rank='0'} NaN _\n wait{rank='1'} _ 1")
    result = data.on("wait", Axis.span(0, 600_000, 600_000)).value
    assert result.present.tolist() == [[True, False]]  # type: ignore[union-attr]
    assert data.at(0, "count(wait)") == {"{}": 1}
    assert data.at(10, "count(wait)") == {"{}": 2}


def test_rate_extrapolates_at_most_to_the_zero_point_and_one_sample_gives_nothing(
    load: Callable[[str], Data],
) -> None:
    data = load(
        "10s\n from_zero_total 0 1 2 3 4\n from_high_total 50 51 52 53 54\n one_total _ _ _ _ 7"
    )
    assert data.at(40, "increase(from_zero_total[1m])") == {"{}": 4}
    assert data.at(40, "increase(from_high_total[1m])") == {"{}": 4.5}
    assert data.at(40, "increase(one_total[1m])") == {}


@pytest.mark.parametrize(
    ("at", "window", "rise"),
    [
        # The edges are 10.9 s from the samples at 100, 110 and 120 s: the whole way to both.
        (130.9, 41.8, 41.8),
        # 11 s, which is 1.1 spacings: half a spacing beyond, on both sides.
        (131, 42, 30),
        # Each side by itself.
        (131, 41.9, 35.9),
    ],
)
def test_rate_extends_to_an_edge_nearer_than_1_1_spacings_and_else_by_half_of_one(
    load: Callable[[str], Data], at: float, window: float, rise: float
) -> None:
    data = load("10s\n c_total _x10 1000 1010 1020")
    times = Axis.instant(round(at * 1000))
    value = data.on(f"increase(c_total[{round(window * 1000)}ms])", times).value
    assert value.values.tolist() == [[pytest.approx(rise)]]  # type: ignore[union-attr]


def test_delta_is_not_cut_at_zero(load: Callable[[str], Data]) -> None:
    data = load("10s\n gauge 0 1 2 3 4")
    assert data.at(40, "delta(gauge[1m])") == {"{}": 4.5}


def test_a_reset_is_corrected_in_the_window_and_a_huge_counter_keeps_its_increments(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n bytes_total 1e15 1000000000000003 5 7")
    assert data.at(30, "increase(bytes_total[31s])")["{}"] == pytest.approx(10 * 31 / 30)
    assert data.at(10, "increase(bytes_total[11s])")["{}"] == pytest.approx(3 * 11 / 10)


def test_nan_and_infinity_touch_only_the_windows_that_hold_them(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n wait 1 2 NaN 4 Inf 6 7 8")
    axis = query(10, 70, 10)
    sums = data.points("sum_over_time(wait[20s])", axis)["{}"]
    assert [sums[t] for t in (10, 60, 70)] == [3, 13, 15]
    assert math.isnan(sums[20])
    assert math.isnan(sums[30])
    assert sums[40] == sums[50] == math.inf
    deviations = data.points("stddev_over_time(wait[20s])", axis)["{}"]
    assert deviations[70] == 0.5


def test_sums_are_compensated_where_signs_mix(load: Callable[[str], Data]) -> None:
    data = load("10s\n w{r='a'} 1 1e100 1 -1e100\n w{r='b'} 1e100\n w{r='c'} 1\n w{r='d'} -1e100")
    assert data.at(30, "sum_over_time(w{r='a'}[1m])") == {'{r="a"}': 2}
    assert data.at(30, "avg_over_time(w{r='a'}[1m])") == {'{r="a"}': 0.5}
    assert data.at(0, "sum(w)") == {"{}": 2}


def test_a_constant_has_a_standard_deviation_of_exactly_zero(load: Callable[[str], Data]) -> None:
    data = load("10s\n w{r='a'} 1.33x20\n w{r='b'} 1.33x20\n w{r='c'} 1.33x20")
    assert data.at(200, "stddev(w)") == {"{}": 0}
    assert set(data.at(200, "stddev_over_time(w[200s])").values()) == {0}


def test_a_subquery_steps_on_absolute_multiples_of_the_global_interval_by_default(
    load: Callable[[str], Data],
) -> None:
    data = load(COUNTER)
    steps = "timestamp(steps_total) + 0 * timestamp(steps_total)"
    assert data.at(65, f"min_over_time(({steps})[40s:])") == {'{rank="0"}': 30}
    assert data.at(65, "count_over_time(steps_total[60s:])") == {'{rank="0"}': 6}
    other = Options(default_step_ms=20_000)
    assert data.at(65, "count_over_time(steps_total[60s:])", other) == {'{rank="0"}': 3}
    assert data.at(65, "count_over_time(steps_total[60s:15s])", other) == {'{rank="0"}': 4}


@pytest.mark.parametrize(
    ("quantile", "expected"), [("0.5", 1.0), ("-0.1", -math.inf), ("1.1", math.inf)]
)
def test_histogram_quantile_interpolates_and_has_its_limits(
    quantile: str, expected: float, load: Callable[[str], Data]
) -> None:
    data = load("10s\n h_bucket{le='2'} 10\n h_bucket{le='+Inf'} 10")
    assert data.at(0, f"histogram_quantile({quantile}, h_bucket)") == {"{}": expected}


@pytest.mark.parametrize(
    "series", ["h_bucket{le='1'} 1\n h_bucket{le='2'} 2", "h_bucket{le='+Inf'} 2"]
)
def test_histogram_quantile_is_nan_without_an_infinite_bucket_or_a_second_one(
    series: str, load: Callable[[str], Data]
) -> None:
    assert math.isnan(load(f"10s\n {series}").at(0, "histogram_quantile(0.5, h_bucket)")["{}"])


def test_histogram_quantile_repairs_falling_counts_and_says_so(load: Callable[[str], Data]) -> None:
    data = load("10s\n h_bucket{le='1'} 5\n h_bucket{le='2'} 3\n h_bucket{le='+Inf'} 10")
    result = data.on("histogram_quantile(0.5, h_bucket)", Axis.instant(0))
    assert result.warnings == ()
    (info,) = result.infos
    assert info.startswith("PromQL info: input to histogram_quantile needed to be fixed")
    assert info.endswith(
        'for metric name "h_bucket", from buckets 2 to 2, with a max diff of 2, '
        "over 1 samples from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z (1:25)"
    )


def test_names_go_at_the_very_end_or_at_once(load: Callable[[str], Data]) -> None:
    data = load("10s\n a_total 0 10 20\n b_total 0 20 40")
    kept = "label_replace(rate({__name__=~'._total'}[30s]), 'of', '$1', '__name__', '(.+)')"
    assert set(data.at(20, kept)) == {'{of="a_total"}', '{of="b_total"}'}
    with pytest.raises(
        EvaluationError, match="vector cannot contain metrics with the same labelset"
    ):
        data.at(20, kept, IMMEDIATE)
    assert data.at(20, "abs(a_total)", IMMEDIATE) == {"{}": 20}


def test_a_name_goes_at_just_the_steps_where_an_operation_took_it(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n a{x='1'} 1 stale\n a{x='2'} _ 5")
    expr = "sum by (__name__) (a{x='1'} or -a{x='2'})"
    assert data.at(0, expr) == {"a": 1}
    assert data.at(10, expr) == {"{}": -5}
    assert data.points(expr, rule(0, 10, 10)) == {"a": {0: 1}, "{}": {10: -5}}


def test_series_that_lose_their_names_and_series_without_one_are_the_same_series(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n a 1 stale 3")
    result = data.on("-a or vector(0)", query(0, 20, 10)).value
    assert len(result.labels) == 1  # type: ignore[union-attr]
    assert result.values.tolist() == [[-1, 0, -3]]  # type: ignore[union-attr]


def test_type_and_unit_go_with_the_name(load: Callable[[str], Data]) -> None:
    data = load("10s\n x{__type__='gauge',__unit__='s',r='a'} 1\n y{__type__='counter',r='a'} 2")
    assert data.at(0, "abs(x)") == {'{r="a"}': 1}
    assert data.at(0, "x + y") == {'{r="a"}': 3}
    assert data.at(0, "sum without () (x)") == {'{r="a"}': 1}


def test_selectors_comparisons_and_extremes_keep_every_bit(load: Callable[[str], Data]) -> None:
    numbers = ["0.1", "5e-324", "1.7976931348623157e308", "-0.0", "0.30000000000000004"]
    data = load("10s\n" + "\n".join(f" x{{n='{n}'}} {text}" for n, text in enumerate(numbers)))
    for expr in ("x", "x == x", "min by (n) (x)", "max by (n) (x)", "max_over_time(x[10s])"):
        got = [repr(value) for value in data.at(0, expr).values()]
        assert got == [repr(float(text)) for text in numbers]


def test_scalars_cover_every_step(load: Callable[[str], Data]) -> None:
    result = load(COUNTER).on("time() * 2", query(0, 20, 10))
    assert isinstance(result.value, Scalar)
    assert result.value.values.tolist() == [0, 20, 40]
