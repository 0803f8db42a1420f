from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.durations import (
    LONGEST_MS,
    DurationError,
    format_duration,
    parse_duration,
    suggest_duration,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("500ms", 500),
        ("1y", 31_536_000_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("90m", 5_400_000),
    ],
)
def test_a_duration_is_read_in_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a duration is missing"),
        ("5", "the unit is missing, such as '5s'"),
        ("1.5m", "smaller unit"),
        ("-5m", "negative"),
        ("5 m", "no spaces"),
        ("5min", "units are"),
        ("1m1h", "largest first"),
        ("1m1m", "each unit comes once"),
        ("300y", "above 292 years"),
        ("9" * 5000 + "s", "out of range"),
        ("\u0665m", "units are"),
    ],
)
def test_what_is_not_a_duration_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(DurationError, match=reason) as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (90_000, "1m30s"),
        (6_000, "6s"),
        (1, "1ms"),
        (8 * 86_400_000, "8d"),
        (14 * 86_400_000, "2w"),
        (-300_000, "-5m"),
    ],
)
def test_a_duration_is_written_as_prometheus_writes_it(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text


@given(st.integers(min_value=0, max_value=LONGEST_MS))
def test_writing_and_reading_a_duration_gives_it_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5min", "5m"),
        ("1.5h", "1h30m"),
        ("30m1h", "1h30m"),
        ("5m5m", "10m"),
        ("5M", "5m"),
        ("5 m", "5m"),
        ("1mo", "30d"),
        ("2 hours, 30 minutes", "2h30m"),
        ("soon", None),
        ("5", None),
        ("m5", None),
        ("9" * 400 + "s", None),
    ],
)
def test_a_duration_in_other_words_is_understood(text: str, meant: str | None) -> None:
    assert suggest_duration(text) == meant


@given(st.text(alphabet="0123456789.smhdwyMo ", max_size=20))
def test_whatever_is_suggested_is_a_duration(text: str) -> None:
    meant = suggest_duration(text)
    assert meant is None or parse_duration(meant) > 0
