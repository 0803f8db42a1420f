"""The hours in which a message wakes somebody, on the clock of a place."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rules.errors import StallwatchError
from rules.slotted import dataclass

if TYPE_CHECKING:
    from datetime import tzinfo

LOCAL = "Local"
_HOURS = re.compile(r"(\d{1,2})(?::(\d\d))?-(\d{1,2})(?::(\d\d))?", re.ASCII)
_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Night:
    """From `begins` to before `ends`, in minutes of the day; over midnight if it begins later.

    `zone` None: the machine's own.
    """

    begins: int
    ends: int
    location: str = LOCAL
    zone: tzinfo | None = None

    @classmethod
    def read(cls, hours: str, location: str) -> Night:
        """The night of `22:00-07:00` or `22-7` at an IANA location, `Local` or `UTC`.

        Raises StallwatchError.
        """
        match = _HOURS.fullmatch(hours.strip())
        begins, ends = (
            (_minutes(match[1], match[2]), _minutes(match[3], match[4])) if match else (-1, -1)
        )
        if not (0 <= begins <= _DAY and 0 <= ends <= _DAY and begins % _DAY != ends % _DAY):
            hint = "from when to when, such as 22:00-07:00 or 22-7"
            raise StallwatchError(f"stallwatch: --night: no hours: '{hours}'\n    hint: {hint}")
        return cls(begins % _DAY, ends % _DAY, location, _zone(location))

    def local(self, time_ms: int) -> datetime:
        """The clock at a time (unix milliseconds)."""
        return datetime.fromtimestamp(time_ms / 1000, timezone.utc).astimezone(self.zone)

    def has(self, time_ms: int) -> bool:
        """Whether it is night then."""
        clock = self.local(time_ms)
        minute = clock.hour * 60 + clock.minute
        if self.begins < self.ends:
            return self.begins <= minute < self.ends
        return minute >= self.begins or minute < self.ends

    def hour_ms(self, time_ms: int) -> int:
        """When the hour of the clock began in which a time falls."""
        clock = self.local(time_ms)
        return time_ms // 1000 * 1000 - (clock.minute * 60 + clock.second) * 1000

    def __str__(self) -> str:
        """`22:00-07:00 Local`."""
        return f"{_clock(self.begins)}-{_clock(self.ends)} {self.location}"


def _minutes(hours: str, minutes: str | None) -> int:
    """-1 for a clock that nobody has."""
    return int(hours) * 60 + int(minutes or 0) if int(minutes or 0) < 60 else -1


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _zone(location: str) -> tzinfo | None:
    if location == LOCAL:
        return None
    if location == "UTC":
        return timezone.utc
    try:
        return ZoneInfo(location)
    except (KeyError, ValueError, OSError):
        hint = "such as Europe/Berlin, UTC, or Local for this machine's own"
        message = f"stallwatch: --location: there is no time zone '{location}'"
        raise StallwatchError(f"{message}\n    hint: {hint}") from None
