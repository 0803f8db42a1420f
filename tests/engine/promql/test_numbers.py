"""Numbers as Go writes and reads them."""

from __future__ import annotations

import math

import pytest

from engine.promql.numbers import format_general, format_plain, parse_float


@pytest.mark.parametrize(
    ("value", "plain", "general"),
    [
        (1.0, "1", "1"),
        (0.1, "0.1", "0.1"),
        (-0.0, "-0", "-0"),
        (1e21, "1000000000000000000000", "1e+21"),
        (2.5e-7, "0.00000025", "2.5e-07"),
        (math.nan, "NaN", "NaN"),
        (-math.inf, "-Inf", "-Inf"),
    ],
)
def test_a_number_is_written_in_its_shortest_form(value: float, plain: str, general: str) -> None:
    assert format_plain(value) == plain
    assert format_general(value) == general


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("+Inf", math.inf),
        ("-inf", -math.inf),
        (".5", 0.5),
        ("0x1p-2", 0.25),
    ],
)
def test_a_bucket_bound_is_read(text: str, value: float) -> None:
    assert parse_float(text) == value


@pytest.mark.parametrize("text", ["", "Hello World", "1 ", "1_000", "0x", "0x1", "1e"])
def test_what_go_does_not_read_is_no_bound(text: str) -> None:
    assert parse_float(text) is None
