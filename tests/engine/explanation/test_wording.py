"""An explanation in words, beside the data that they are made from."""

from __future__ import annotations

from typing import Any

import pytest

from engine.explanation.wording import brief, statistic_lines

WINDOW = {
    "samples": 5,
    "first": 1_700_000_000,
    "last": 1_700_000_040,
    "newest": 9.0,
    "median": 2.5,
    "lower": 2.0,
    "upper": 3.0,
}
ONE = {"expr": "", "recorded_as": "", "labels": {}, "value": 4.5}
FROM_TO = "5 samples from 2023-11-14T22:13:20Z to 2023-11-14T22:14:00Z"
QUARTILES = "newest 9, median 2.5, quartiles 2 and 3"


@pytest.mark.parametrize(
    ("told", "said", "short"),
    [
        (
            {
                "function": "zscore_over_time",
                "window": WINDOW,
                "centre": 3.0,
                "centre_is": "mean",
                "spread": 1.5,
                "spreads": 4.0,
                "expected": [-3.0, 9.0],
            },
            [
                "zscore_over_time: 4.5",
                f"  {FROM_TO}: {QUARTILES}",
                "  mean 3, spread 1.5; expected: -3 to 9 (4 spreads)",
            ],
            "zscore_over_time is 4.5; expected: -3 to 9",
        ),
        (
            {
                "function": "distribution_shift",
                "window": WINDOW,
                "reference": WINDOW,
                "distribution_shift": 4.5,
                "distribution_shift_pvalue": 0.01,
                "expected": [2.0, 3.0],
            },
            [
                "distribution_shift: 4.5",
                f"  {FROM_TO}: {QUARTILES}",
                f"  against {FROM_TO}: {QUARTILES}",
                "  distribution_shift_pvalue is 0.01",
                "  expected: 2 to 3",
            ],
            "distribution_shift is 4.5; expected: 2 to 3",
        ),
        (
            {
                "function": "changepoint_time_over_time",
                "value": 1_700_000_020.0,
                "recorded_as": "job:since",
                "changepoint_time_over_time": 1_700_000_020.0,
                "changepoint_size_over_time": 2.0,
            },
            [
                "job:since, changepoint_time_over_time: 2023-11-14T22:13:40Z",
                "  changepoint_size_over_time is 2",
            ],
            "changepoint_time_over_time is 2023-11-14T22:13:40Z",
        ),
        (
            {
                "function": "anomaly_score",
                "value": 0.75,
                "onset_from": 0.5,
                "expected": [1.0, 2.0],
                "strongest": "jump",
                "strengths": {"jump": 3.0, "above": 1.5},
                "point": 1_700_000_000,
            },
            [
                "anomaly_score: 0.75",
                "  expected: 1 to 2; an onset scores 0.5 or more",
                (
                    "  strongest: jump, the value from the level of the moment before it:"
                    " 3 times what an onset takes"
                ),
            ],
            "anomaly_score is 0.75; expected: 1 to 2; strongest: jump, 3",
        ),
        (
            {"function": "anomaly_score", "value": 0.75},
            ["anomaly_score: 0.75", "  what was expected at that time is not known any more"],
            "anomaly_score is 0.75",
        ),
        (
            {"function": "ewma_zscore", "value": "+Inf"},
            ["ewma_zscore: +Inf"],
            "ewma_zscore is +Inf",
        ),
    ],
)
def test_a_statistic_is_told(told: dict[str, Any], said: list[str], short: str) -> None:
    assert list(statistic_lines(ONE | told)) == said
    assert brief(ONE | told) == short


def test_many_peers_are_counted() -> None:
    peers = [
        {"labels": {"rank": str(rank), "task": "t\x1b[2J"}, "value": float(9 - rank)}
        for rank in range(1, 10)
    ]
    told = ONE | {
        "function": "straggler_cost",
        "labels": {"rank": "0", "task": "t\x1b[2J"},
        "value_of": 5.0,
        "place": 4,
        "size": 41,
        "median": 4.0,
        "lower": 3.0,
        "upper": 6.0,
        "expected": None,
        "peers": peers,
    }
    assert list(statistic_lines(told)) == [
        "straggler_cost: 4.5",
        (
            "  its value 5 is number 4 from the largest of 41; the others have median 4,"
            " quartiles 3 and 6"
        ),
        (
            "  peers: rank=1 8; rank=2 7; rank=3 6; rank=4 5; rank=5 4; rank=6 3; rank=7 2;"
            " rank=8 1; 32 more"
        ),
    ]
