"""What cannot be evaluated is refused with its place, before it costs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.promql.engine import EvaluationError, Options
from engine.promql.value import Axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.promql.conftest import Data

TOO_MANY = "query processing would load too many samples into memory in query execution"
SAME = "vector cannot contain metrics with the same labelset"

REFUSED = [
    ("count_over_time(vector(1)[100y:1s])", TOO_MANY, "vector(1)[100y:1s]"),
    ("count_over_time(w[100y:1s])", TOO_MANY, "w[100y:1s]"),
    ("sum(max_over_time(rate(w[1m])[100y:1ms] offset 5m))", TOO_MANY, None),
    ("w + on() group_left() w", "found duplicate series for the match group {}", "+"),
    ("-{r='a'}", SAME, None),
    ("label_replace(w, 'r', '', '', '')", SAME, "label_replace(w, 'r', '', '', '')"),
    ("label_replace(w, '', 'x', 'r', '(.*)')", "invalid destination label name", "''"),
    ("label_join(w, 'x', '-', '')", "invalid source label name", "''"),
    ("topk(NaN, w)", "Parameter value is NaN", "NaN"),
    ("topk(1e30, w)", "Scalar value 1e+30 overflows int64", "1e30"),
    (r"count_values('a\xc5z', w)", "invalid label name", r"'a\xc5z'"),
    ("1 </ 2", 'operator "</" not allowed for scalar operations', "</"),
    ("count_over_time(w[step()])", "the duration must be greater than 0", "step()"),
    ("w offset (1m / step())", "division by zero in a duration", "/"),
    ("seasonal_zscore(w[1m], 20 + 1)", "at most a third of the window", "20 + 1"),
    ("seasonal_zscore(w[1m], 0.0001)", "invalid period", "0.0001"),
    ("ewma_over_time(w[1m], scalar(w{r='c'}))", "invalid half-life", "scalar(w{r='c'})"),
    ("holt_band_over_time(w[1m], 0.5, NaN)", "invalid trend factor", "NaN"),
    ("straggler_score(3.5, w)", "groups of a whole number of elements, not of 3.5", "3.5"),
    ("straggler_score(Inf, w)", "groups of a whole number of elements, not of inf", "Inf"),
    ("double_exponential_smoothing(w[1m], 2, 0.5)", "invalid smoothing factor", "2"),
]


@pytest.mark.parametrize(("expr", "message", "place"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_refusal_says_why_and_where(
    expr: str, message: str, place: str | None, load: Callable[[str], Data]
) -> None:
    data = load("10s\n w{r='a'} 1 2\n w{r='b'} 1 2\n v{r='a'} 1 2")
    with pytest.raises(EvaluationError) as caught:
        data.at(10, expr)
    assert message in str(caught.value)
    if place is not None:
        assert caught.value.span is not None
        assert expr[caught.value.span.start : caught.value.span.end] == place


def test_what_would_take_forever_block_by_block_is_refused_at_once(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n" + "\n".join(f" w{{n='{n}'}} 1x10" for n in range(100)))
    nested = "max_over_time(max_over_time(sum(w)[5h:1ms])[5h:1s])"
    with pytest.raises(EvaluationError, match=TOO_MANY) as caught:
        data.at(100, nested)
    assert caught.value.span is not None
    assert nested[caught.value.span.start : caught.value.span.end] == "w"


def test_a_label_for_each_value_is_refused_before_it_fills_the_memory(
    load: Callable[[str], Data],
) -> None:
    data = load("10s\n w{r='a'} 0+1x100\n w{r='b'} 1000+1x100")
    axis = Axis.span(0, 1_000_000, 10_000)
    with pytest.raises(EvaluationError, match=TOO_MANY):
        data.on("count_values('v', w)", axis, Options(max_samples=10_000))


def test_the_limit_counts_series_times_steps(load: Callable[[str], Data]) -> None:
    data = load("10s\n w{r='a'} 1x100\n w{r='b'} 1x100")
    axis = Axis.span(0, 1_000_000, 10_000)
    few = Options(max_samples=200)
    with pytest.raises(EvaluationError, match=TOO_MANY):
        data.on("w", axis, few)
    assert len(data.points("sum(w)", axis, Options(max_samples=300))["{}"]) == 101


def test_a_raw_range_is_a_result_at_one_time_only(load: Callable[[str], Data]) -> None:
    data = load("10s\n w 1 2 3")
    with pytest.raises(EvaluationError, match='invalid expression type "range vector"'):
        data.on("w[1m]", Axis.span(0, 60_000, 10_000))


def test_no_arithmetic_warning_reaches_the_user(
    load: Callable[[str], Data], recwarn: pytest.WarningsRecorder
) -> None:
    data = load("10s\n w{r='a'} 0 NaN Inf -Inf 1e308\n w{r='b'} 0 0 0 0 0")
    for expr in (
        "w / 0", "ln(w)", "w % 0", "w ^ w", "rate(w[1m])", "avg_over_time(w[1m])", "sum(w) * 1e308",
        "stddev_over_time(w[1m])", "histogram_quantile(0.5, w)", "day_of_year(w * 1e300)",
        "quantile(0.5, w)", "deriv(w[1m])",
    ):  # fmt: skip
        data.on(expr, Axis.span(0, 60_000, 10_000))
    assert not recwarn.list
