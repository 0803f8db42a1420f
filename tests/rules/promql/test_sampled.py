from __future__ import annotations

import pytest

from rules.promql.parser import parse
from rules.promql.sampled import needs_samples


@pytest.mark.parametrize(
    "expr",
    [
        "x",
        "-(x)",
        "sum by (a) (rate(x[5m]))",
        "max_over_time((x + 0)[1h:1m])",
        "x + vector(1)",
        "1 - x",
        "x or y",
        "x and absent(y)",
        "x unless absent(y)",
        "clamp_max(x, scalar(y))",
        'label_replace(x, "a", "b", "", "")',
        "distribution_shift(x[5m], y[1h])",
    ],
)
def test_what_is_made_of_samples_has_no_value_without_any(expr: str) -> None:
    assert needs_samples(parse(expr))


@pytest.mark.parametrize(
    "expr",
    [
        "absent(x)",
        "absent_over_time(x[5m])",
        "vector(1)",
        "vector(scalar(x))",
        "hour()",
        "x or vector(0)",
        "absent(y) unless x",
        "x + fill (0) vector(1)",
        "max_over_time(absent(x)[1h:1m])",
    ],
)
def test_what_may_have_a_value_without_samples_is_known(expr: str) -> None:
    assert not needs_samples(parse(expr))


def test_a_deep_tree_costs_no_stack() -> None:
    assert needs_samples(parse("x" + " + x" * 5_000))
