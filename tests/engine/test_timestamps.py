"""Times as RFC 3339 text."""

from __future__ import annotations

import pytest

from engine.timestamps import format_rfc3339, parse_timestamp


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_500, "2023-11-14T22:13:20.5Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_survive_a_round_trip(time_ms: int, text: str) -> None:
    assert format_rfc3339(time_ms) == text
    assert parse_timestamp(text) == time_ms


def test_unix_seconds_and_offsets_are_read() -> None:
    assert parse_timestamp("1.5") == 1500
    assert parse_timestamp("1970-01-01T02:00:00.25+02:00") == 250
    assert parse_timestamp("1969-12-31T22:00:00-02:00") == 0


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1e300", "2020-13-01T00:00:00Z", "now"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="to a valid timestamp"):
        parse_timestamp(text)
