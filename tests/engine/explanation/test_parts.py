from __future__ import annotations

import pytest

from engine.explanation.parts import parts_of
from engine.explanation.statistics import statistics_in
from rules.promql.parser import parse
from rules.promql.printer import format as format_expression

RECORDED = {
    "score": parse("straggler_score by (task_id) (x)"),
    "again": parse("score"),
    "loop": parse("loop + zscore_over_time(x[5m])"),
}


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("x", [("", "x", "", "")]),
        ("x > 1", [("", "x", ">", "1")]),
        ("1 < x", [("", "x", ">", "1")]),
        ("(x >= y)", [("", "x", ">=", "y")]),
        ("x > bool 1", [("", "x > bool 1", "", "")]),
        ("x > 1 and y < 2", [("", "x", ">", "1"), ("and", "y", "<", "2")]),
        (
            "(x > 1 and (y unless z == 3)) or w",
            [("", "x", ">", "1"), ("and", "y", "", ""), ("unless", "z", "==", "3"),
             ("or", "w", "", "")],
        ),
        ("0 < x < 5", [("", "0 < x", "<", "5")]),
    ],
)  # fmt: skip
def test_an_expression_is_taken_apart(
    expression: str, parts: list[tuple[str, str, str, str]]
) -> None:
    found = [
        (
            part.joined,
            format_expression(part.left),
            part.op,
            "" if part.right is None else format_expression(part.right),
        )
        for part in parts_of(parse(expression))
    ]
    assert found == parts


@pytest.mark.parametrize(
    ("expression", "statistics"),
    [
        ("rate(x[5m]) > 1", []),
        ("zscore_over_time(x[5m]) > 4", [("zscore_over_time", 100_000, "", 4.0)]),
        ("abs((zscore_over_time(x[5m]))) > 4", [("zscore_over_time", 100_000, "", 4.0)]),
        ("zscore_over_time(x[5m]) + y > 4", [("zscore_over_time", 100_000, "", None)]),
        ("score > 3", [("straggler_score", 100_000, "score", 3.0)]),
        ("again offset 10s > 3", [("straggler_score", 90_000, "score", 3.0)]),
        (
            "count_over_time((score > 3)[5m:1m] offset 20s) > 9",
            [("straggler_score", 80_000, "score", 3.0)],
        ),
        ("max_over_time(score[5m] @ 50) > 3", [("straggler_score", 100_000, "score", None)]),
        ("max_over_time((score)[5m:] @ 50) > 3", [("straggler_score", 50_000, "score", None)]),
        ("loop > 1", [("zscore_over_time", 100_000, "loop", None)]),
        ("score > 3 + score", [("straggler_score", 100_000, "score", 3.0)]),
        (
            "anomaly_score(entropy_over_time(x[5m])) > 0.5",
            [("anomaly_score", 100_000, "", 0.5)],
        ),
    ],
)
def test_statistics_are_found_with_their_time_and_what_they_are_compared_with(
    expression: str, statistics: list[tuple[str, int, str, float | None]]
) -> None:
    (part,) = parts_of(parse(expression))
    limits = {"score > 3 + score": 3.0}
    limit = limits.get(expression)
    if limit is None and part.right is not None:
        limit = float(format_expression(part.right))
    found = [
        (one.name, one.time_ms, one.recorded_as, one.limit)
        for one in statistics_in(part, 100_000, RECORDED, limit)
    ]
    assert found == statistics
