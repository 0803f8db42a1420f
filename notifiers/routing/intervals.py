"""Time intervals by name: which of them hold at a moment.

The rules are those of timeinterval/timeinterval.go in Alertmanager.
"""

from __future__ import annotations

import calendar
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from engine.config.model import Ranges, TimeInterval, TimeIntervalConfig

LOCAL = "Local"
UTC = "UTC"
# What `datetime` can show in any time zone: a day inside the years 1 to 9999.
_EARLIEST_SECONDS = -62_135_510_400.0
_LATEST_SECONDS = 253_402_214_400.0


class Intervals:
    """The named intervals of a configuration."""

    def __init__(self, configs: Iterable[TimeIntervalConfig]) -> None:
        self._by_name = {
            config.name: tuple((part, _zone(part.location)) for part in config.time_intervals)
            for config in configs
        }

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def contains(self, names: Iterable[str], time_ms: int) -> tuple[str, ...]:
        """Those of the names that hold at a time (unix milliseconds), in their order.

        Raises KeyError for a name that is not configured; the configuration's reader refuses it.
        """
        return tuple(
            name
            for name in names
            if any(holds(part, _moment(time_ms, zone)) for part, zone in self._by_name[name])
        )


def holds(interval: TimeInterval, moment: datetime) -> bool:
    """Whether an interval holds at a moment, which is given in the interval's own time zone."""
    minute = moment.hour * 60 + moment.minute
    # Alertmanager counts weekdays from Sunday, Python from Monday.
    weekday = moment.isoweekday() % 7
    return (
        (interval.times is None or any(start <= minute < end for start, end in interval.times))
        and (interval.days_of_month is None or _on_day(interval.days_of_month, moment))
        and _in(interval.weekdays, weekday)
        and _in(interval.months, moment.month)
        and _in(interval.years, moment.year)
    )


def _in(ranges: Ranges | None, number: int) -> bool:
    return ranges is None or any(begin <= number <= end for begin, end in ranges)


def _on_day(ranges: Ranges, moment: datetime) -> bool:
    """Days below 0 count from the month's end; a range ends with the month."""
    days = calendar.monthrange(moment.year, moment.month)[1]

    def day(number: int) -> int:
        return days + number + 1 if number < 0 else number

    return any(day(begin) <= moment.day <= day(end) for begin, end in ranges)


def _zone(location: str) -> tzinfo | None:
    """None: the machine's own time zone. UTC needs no database of zones."""
    if location == UTC:
        return timezone.utc
    return None if location == LOCAL else ZoneInfo(location)


def _moment(time_ms: int, zone: tzinfo | None) -> datetime:
    seconds = min(max(time_ms / 1000, _EARLIEST_SECONDS), _LATEST_SECONDS)
    return datetime.fromtimestamp(seconds, timezone.utc).astimezone(zone)
