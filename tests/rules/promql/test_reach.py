"""How far back an expression looks."""

from __future__ import annotations

import pytest

from rules.promql.parser import parse
from rules.promql.reach import reach_ms


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1", 0),
        ("x", 5),
        ("x offset 1h", 65),
        ("x offset -1h", 0),
        ("rate(x[1d])", 1440),
        ("rate(x[1h] offset 1d) > on () y", 1500),
        ("max_over_time(rate(x[10m])[1h:1m] offset 2h)", 190),
        ("max_over_time((x + y)[30m:])", 35),
    ],
)
def test_ranges_offsets_and_subqueries_add_up(text: str, minutes: int) -> None:
    assert reach_ms(parse(text), lookback_ms=300_000) == minutes * 60_000
