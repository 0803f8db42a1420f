from __future__ import annotations

from datetime import datetime, timezone

import pytest

from notifiers.forecast.night import Night
from rules.errors import StallwatchError


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


def test_a_night_goes_over_midnight_or_stays_within_a_day() -> None:
    night = Night.read("22:30-7", "UTC")
    hours = [
        "2026-03-02T22:29:59",
        "2026-03-02T22:30:00",
        "2026-03-03T06:59:59",
        "2026-03-03T07:00",
    ]
    assert [night.has(ms(hour)) for hour in hours] == [False, True, True, False]
    lunch = Night.read("12-13:00", "UTC")
    assert [lunch.has(ms(f"2026-03-02T{hour}:00:00")) for hour in (11, 12, 13)] == [0, 1, 0]
    assert Night.read("22-24", "UTC").has(ms("2026-03-02T23:59:00"))


def test_it_is_night_by_the_clock_of_the_place_also_when_that_changes() -> None:
    night = Night.read("22-7", "Europe/Berlin")
    # 22:30 in winter and 23:30 in summer; 06:30 and 07:30.
    assert night.has(ms("2026-01-02T21:30:00"))
    assert night.has(ms("2026-07-02T20:30:00"))
    assert night.has(ms("2026-01-03T05:30:00"))
    assert not night.has(ms("2026-07-03T05:30:00"))


def test_an_hour_begins_by_the_clock_of_the_place() -> None:
    assert Night.read("22-7", "Asia/Kolkata").hour_ms(ms("2026-01-02T10:45:10")) == ms(
        "2026-01-02T10:30:00"
    )


@pytest.mark.parametrize("text", ["", "22", "22-22", "24-0", "25-7", "22:60-7", "-1-7", "night"])
def test_hours_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(StallwatchError, match=r"--night: no hours: .*\n    hint: from when to"):
        Night.read(text, "UTC")


@pytest.mark.parametrize("place", ["Berlin", "", "/etc/passwd", "../../etc"])
def test_a_place_without_a_clock_is_refused(place: str) -> None:
    with pytest.raises(StallwatchError, match="--location: there is no time zone"):
        Night.read("22-7", place)
