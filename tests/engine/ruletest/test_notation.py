from __future__ import annotations

import math

import pytest

from engine.ruletest.notation import read_metric, read_values
from engine.series import stale_mask
from rules.source import ProblemsError

STALE = object()

# What is written: one value per step; None for a gap.
SEQUENCES: list[tuple[str, list[object]]] = [
    ("", []),
    ("1", [1.0]),
    ("1 2.5 -3 +4", [1.0, 2.5, -3.0, 4.0]),
    ("1x3", [1.0, 1.0, 1.0, 1.0]),
    ("0x5", [0.0] * 6),
    ("1+2x3", [1.0, 3.0, 5.0, 7.0]),
    ("-1-2x2", [-1.0, -3.0, -5.0]),
    ("0.1+0.1x2", [0.1, 0.2, 0.1 + 0.1 + 0.1]),
    ("1 _ 2", [1.0, None, 2.0]),
    ("_x3 1", [None, None, None, 1.0]),
    ("0 stale", [0.0, STALE]),
    ("Inf -inf", [math.inf, -math.inf]),
    ("Inf+1x1", [math.inf, math.inf]),
    ("1e3 .5 5.", [1000.0, 0.5, 5.0]),
    ("010", [8.0]),
    ("  1\t2 \n", [1.0, 2.0]),
]


@pytest.mark.parametrize(("text", "expected"), SEQUENCES, ids=[text for text, _ in SEQUENCES])
def test_a_sequence_expands_as_in_promtool(text: str, expected: list[object]) -> None:
    found = read_values(text)
    stale = stale_mask(found.values)
    shown = [
        None if not there else STALE if gone else value
        for value, there, gone in zip(
            found.values.tolist(), found.present.tolist(), stale.tolist(), strict=True
        )
    ]
    assert shown == expected


def test_nan_is_a_value() -> None:
    found = read_values("NaN nan")
    assert found.present.all()
    assert not stale_mask(found.values).any()
    assert all(map(math.isnan, found.values.tolist()))


def test_native_histograms_are_read_added_up_and_kept() -> None:
    found = read_values("1 {{count:2 sum:3 buckets:[2]}}+{{count:1 sum:1 buckets:[1]}}x2 _ {{}}")
    assert found.present.tolist() == [True, True, True, True, False, True]
    assert found.histograms == (
        None,
        "{{count:2 sum:3 buckets:[2]}}",
        "{{count:3 sum:4 counter_reset_hint:not_reset buckets:[3]}}",
        "{{count:4 sum:5 counter_reset_hint:not_reset buckets:[4]}}",
        None,
        "{{counter_reset_hint:reset}}",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{count:x}}", "not a number"),
        ("{{cuont:1}}", "has no 'cuont'"),
        ("{{count:1 count:2}}", "appears twice"),
        ("{{buckets:1}}", "not a list"),
        ("{{count 1}}", "not a field"),
        ("{{counter_reset_hint:maybe}}", "is no counter_reset_hint"),
        ("{{schema:1}}+{{schema:2}}x2", "different buckets"),
    ],
)
def test_what_is_no_native_histogram_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        read_values(f"1 {text}")
    assert message in caught.value.problems[0].message
    assert caught.value.problems[0].span.start == 2


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("1 2,3", 3, "separated by spaces"),
        ("stalex3", 1, "cannot be repeated"),
        ("1 0x1F", 3, "values are written as"),
        ("1_000", 1, "values are written as"),
        ("__", 1, "values are written as"),
        ("1x", 1, "values are written as"),
        ("Infx3", 1, "write 'Inf+0x3'"),
        ("1 1\n2", 4, "stands on one line"),
        ("1 + 2", 3, "values are written as"),
        ("1+-2x3", 1, "values are written as"),
        ("1x99999999999999999", 1, ""),
    ],
)
def test_a_sequence_that_promtool_refuses_is_refused_at_its_place(
    text: str, column: int, hint: str
) -> None:
    with pytest.raises(ProblemsError) as caught:
        read_values(text)
    problem = caught.value.problems[0]
    assert problem.span.start == column - 1
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("up", {"__name__": "up"}),
        ("", {}),
        ("{}", {}),
        ("up{job=\"a\", b='c',}", {"__name__": "up", "job": "a", "b": "c"}),
        ('{"with.dot", a="b"}', {"__name__": "with.dot", "a": "b"}),
        ('sum{a=""}', {"__name__": "sum"}),
        ('{a=""}', {"a": ""}),
    ],
)
def test_a_series_has_a_name_and_labels(text: str, labels: dict[str, str]) -> None:
    assert read_metric(text) == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('up{a="b"', "is never closed"),
        ('up{a=~"b"}', "'=~' in the name of a series"),
        ("up offset 5m", 'unexpected "offset"'),
        ("5", "unexpected number 5"),
        ('up{a="1",a="2"}', "appears twice"),
    ],
)
def test_what_is_no_series_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        read_metric(text)
    assert message in caught.value.problems[0].message
