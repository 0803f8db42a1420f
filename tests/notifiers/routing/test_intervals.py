"""Time intervals, held to every minute written out."""

from __future__ import annotations

import calendar
import random
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from engine.config.kinds import Kinds
from engine.config.loader import load_config
from engine.config.model import TimeInterval, TimeIntervalConfig
from notifiers.routing.intervals import Intervals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.config.model import Ranges

OFFICE = """\
time_intervals:
  - name: office
    time_intervals:
      - times: [{start_time: "09:00", end_time: "17:30"}]
        weekdays: ["monday:friday"]
        location: Europe/Berlin
  - name: month end
    time_intervals:
      - days_of_month: ["-3:-1"]
      - {months: ["december"], days_of_month: ["24:26"], years: ["2026:2027"]}
  - {name: always, time_intervals: [{}]}
  - name: never
mute_time_intervals:
  - name: nights
    time_intervals:
      - times: [{start_time: "22:00", end_time: "24:00"}, {start_time: "00:00", end_time: "06:00"}]
"""


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.fixture
def intervals(tmp_path: Path) -> Intervals:
    (tmp_path / "stallwatch.yaml").write_text(OFFICE)
    return Intervals(load_config(tmp_path / "stallwatch.yaml", Kinds()).time_intervals)


@pytest.mark.parametrize(
    ("moment", "names"),
    [
        ("2026-11-30T08:00:00+00:00", ["office", "month end", "always"]),
        ("2026-11-30T07:59:59.999+00:00", ["month end", "always"]),
        ("2026-11-30T16:30:00+00:00", ["month end", "always"]),
        ("2026-07-01T07:00:00+00:00", ["office", "always"]),
        ("2026-07-04T07:00:00+00:00", ["always"]),
        ("2026-12-24T22:00:00+00:00", ["month end", "always", "nights"]),
        ("2028-12-24T06:00:00+00:00", ["always"]),
        ("2028-02-27T05:59:00+00:00", ["month end", "always", "nights"]),
        ("2028-02-26T00:00:00+00:00", ["always", "nights"]),
    ],
)
def test_an_interval_holds_where_all_that_it_names_does(
    intervals: Intervals, moment: str, names: list[str]
) -> None:
    asked = ("office", "month end", "always", "never", "nights")
    assert list(intervals.contains(asked, _ms(moment))) == names


def test_a_name_that_is_not_configured_is_an_error(intervals: Intervals) -> None:
    assert "office" in intervals
    assert "offcie" not in intervals
    with pytest.raises(KeyError):
        intervals.contains(["offcie"], 0)


def test_any_time_can_be_asked_for(intervals: Intervals) -> None:
    for time_ms in (-(2**63), 2**63 - 1, -1, 0):
        assert intervals.contains(["always", "never"], time_ms) == ("always",)


def test_every_minute_is_as_if_it_were_written_out() -> None:
    chance = random.Random(11)
    for _ in range(60):
        interval = _random_interval(chance)
        intervals = Intervals([TimeIntervalConfig(name="one", time_intervals=(interval,))])
        year, month = chance.choice((2024, 2026, 2027)), chance.choice((2, 3, 10))
        moment = datetime(year, month, chance.randint(1, 28), tzinfo=timezone.utc)
        for step in range(0, 6000, chance.choice((13, 61))):
            at = moment + timedelta(minutes=step)
            time_ms = int(at.timestamp()) * 1000 + chance.randrange(60_000)
            assert bool(intervals.contains(["one"], time_ms)) is _written_out(interval, at), at


def _written_out(interval: TimeInterval, moment: datetime) -> bool:
    local = moment.astimezone(ZoneInfo(interval.location))
    # A list of days with a first and a last: Python counts from the end as Alertmanager does.
    month = list(range(1, calendar.monthrange(local.year, local.month)[1] + 1))
    sunday_first = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]

    def listed(number: int) -> int:
        return number if number > 0 else len(month) + number + 1

    allowed: list[tuple[Ranges | None, object, Callable[[int, int], list[Any]]]] = [
        (interval.times, f"{local:%H:%M}", lambda a, b: [_clock(one) for one in range(a, b)]),
        (
            interval.days_of_month,
            local.day,
            lambda a, b: [day for day in month if listed(a) <= day <= listed(b)],
        ),
        (interval.weekdays, f"{local:%a}", lambda a, b: sunday_first[a : b + 1]),
        (interval.months, local.month, lambda a, b: list(range(a, b + 1))),
        (interval.years, local.year, lambda a, b: list(range(a, b + 1))),
    ]
    return all(
        ranges is None or any(value in between(*ends) for ends in ranges)
        for ranges, value, between in allowed
    )


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _random_interval(chance: random.Random) -> TimeInterval:
    def some(lowest: int, highest: int, shortest: int = 0) -> tuple[tuple[int, int], ...] | None:
        if chance.random() < 0.5:
            return None
        pairs = (sorted((chance.randint(lowest, highest), chance.randint(lowest, highest)))
                 for _ in range(chance.randint(0, 3)))  # fmt: skip
        return tuple((one[0], one[1]) for one in pairs if one[1] - one[0] >= shortest)

    days = some(1, 31)
    if chance.random() < 0.3:
        days = some(-31, -1)
    return TimeInterval(
        times=some(0, 1440, 1),
        weekdays=some(0, 6),
        days_of_month=days,
        months=some(1, 12),
        years=some(2023, 2028),
        location=chance.choice(("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns")),
    )
