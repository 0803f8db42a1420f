"""Times and durations: what templates are given of them, with the methods of Go's types."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from rules.templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECOND = 10**9
# Go's zero time, the first second of the year 1.
ZERO_NANOSECONDS = -62_135_596_800 * SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# The pieces of a layout (https://pkg.go.dev/time#pkg-constants), the longest first.
_PIECES = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00|Z0700|-07:00|-0700|-07|01|02|03|04|05|06|002|15|PM|pm"
    r"|_2|[.,]0+(?![0-9])|[.,]9+(?![0-9])|1|2|3|4|5"
)
_PLAIN_PIECES: Mapping[str, str] = {
    "January": "%B", "Jan": "%b", "Monday": "%A", "Mon": "%a", "01": "%m", "02": "%d", "03": "%I",
    "04": "%M", "05": "%S", "06": "%y", "002": "%j", "15": "%H",
}  # fmt: skip
_ZONES = frozenset({"MST", "Z07:00", "Z0700", "-07:00", "-0700", "-07"})


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Go's time.Time: nanoseconds since 1970, shown in a zone, which is UTC unless it is said."""

    nanoseconds: int
    offset_seconds: int = 0
    zone: str = "UTC"

    @property
    def calendar(self) -> datetime:
        """Its date and time to the second. Raises TemplateError outside the years 1 to 9999."""
        try:
            return _EPOCH + timedelta(seconds=self.nanoseconds // SECOND + self.offset_seconds)
        except OverflowError:
            raise TemplateError("a time outside of the years 1 to 9999") from None

    def __str__(self) -> str:
        return self.formatted("2006-01-02 15:04:05.999999999 -0700 MST")

    def formatted(self, layout: str) -> str:
        """Time.Format."""
        return _PIECES.sub(lambda piece: self._piece(piece.group()), layout)

    def _piece(self, piece: str) -> str:
        moment = self.calendar
        if piece in _PLAIN_PIECES:
            return moment.strftime(_PLAIN_PIECES[piece])
        if piece in _ZONES:
            return self._zone(piece)
        if piece[0] in ".,":
            digits = f"{self.nanoseconds % SECOND:09d}"[: len(piece) - 1].ljust(len(piece) - 1, "0")
            digits = digits.rstrip("0") if piece[1] == "9" else digits
            return piece[0] + digits if digits else ""
        hour = moment.hour % 12 or 12
        match piece:
            case "2006":
                return f"{moment.year:04d}"
            case "PM" | "pm":
                half = "AM" if moment.hour < 12 else "PM"
                return half if piece == "PM" else half.lower()
            case "_2":
                return f"{moment.day:2d}"
            case _:
                numbers = (moment.month, moment.day, hour, moment.minute, moment.second)
                return str(numbers["12345".index(piece)])

    def _zone(self, piece: str) -> str:
        """The zone's name, or how far it is from UTC."""
        if piece == "MST":
            return self.zone
        if piece[0] == "Z" and not self.offset_seconds:
            return "Z"
        sign = "-" if self.offset_seconds < 0 else "+"
        hours, minutes = divmod(abs(self.offset_seconds) // 60, 60)
        if piece == "-07":
            return f"{sign}{hours:02d}"
        return f"{sign}{hours:02d}{':' if ':' in piece else ''}{minutes:02d}"


@dataclass(frozen=True, slots=True, order=True)
class Elapsed:
    """Go's time.Duration."""

    nanoseconds: int

    def __str__(self) -> str:
        """`1h2m3.5s`; below a second in `ms`, `µs` or `ns`."""
        sign, rest = ("-", -self.nanoseconds) if self.nanoseconds < 0 else ("", self.nanoseconds)
        if rest == 0:
            return "0s"
        for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
            if rest < size * 1000:
                return f"{sign}{_decimal(rest, size)}{unit}"
        minutes, seconds = divmod(rest, 60 * SECOND)
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(seconds, SECOND)}s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(count: int, size: int) -> str:
    """A quotient in all its digits; `size` is a power of ten."""
    whole, rest = divmod(count, size)
    digits = str(rest).zfill(len(str(size)) - 1).rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _cut(value: int, by: int) -> int:
    return int(abs(value) // by * (1 if value >= 0 else -1))


def _nanoseconds(elapsed: Any) -> int:
    """Of a duration; a whole number is one too, as Go takes the constant in `.Add 28800e9`."""
    if isinstance(elapsed, int | float) and not isinstance(elapsed, bool) and elapsed % 1 == 0:
        return int(elapsed)
    nanoseconds: int = elapsed.nanoseconds
    return nanoseconds


def _held(nanoseconds: int) -> int:
    """A difference as far as a Duration goes, 292 years."""
    return max(-(2**63), min(nanoseconds, 2**63 - 1))


# Methods by name; each takes the value and the arguments.
_MOMENT: Mapping[str, Callable[..., Any]] = {
    "Year": lambda own: own.calendar.year,
    "Month": lambda own: own.calendar.strftime("%B"),
    "Weekday": lambda own: own.calendar.strftime("%A"),
    "Day": lambda own: own.calendar.day,
    "YearDay": lambda own: own.calendar.timetuple().tm_yday,
    "Hour": lambda own: own.calendar.hour,
    "Minute": lambda own: own.calendar.minute,
    "Second": lambda own: own.calendar.second,
    "Nanosecond": lambda own: own.nanoseconds % SECOND,
    "Unix": lambda own: own.nanoseconds // SECOND,
    "UnixMilli": lambda own: own.nanoseconds // 10**6,
    "UnixMicro": lambda own: own.nanoseconds // 10**3,
    "UnixNano": lambda own: own.nanoseconds,
    "UTC": lambda own: Moment(own.nanoseconds),
    "String": str,
    "Format": lambda own, layout: own.formatted(layout),
    "Add": lambda own, elapsed: replace(own, nanoseconds=own.nanoseconds + _nanoseconds(elapsed)),
    "Sub": lambda own, other: Elapsed(_held(own.nanoseconds - other.nanoseconds)),
    "After": lambda own, other: own.nanoseconds > other.nanoseconds,
    "Before": lambda own, other: own.nanoseconds < other.nanoseconds,
    "IsZero": lambda own: own.nanoseconds == ZERO_NANOSECONDS,
    "Equal": lambda own, other: own.nanoseconds == other.nanoseconds,
}
_ELAPSED: Mapping[str, Callable[..., Any]] = {
    "Hours": lambda own: own.nanoseconds / (3600 * SECOND),
    "Minutes": lambda own: own.nanoseconds / (60 * SECOND),
    "Seconds": lambda own: own.nanoseconds / SECOND,
    "Milliseconds": lambda own: _cut(own.nanoseconds, 10**6),
    "Microseconds": lambda own: _cut(own.nanoseconds, 10**3),
    "Nanoseconds": lambda own: own.nanoseconds,
    "String": str,
    "Abs": lambda own: Elapsed(abs(own.nanoseconds)),
}


def call_method(value: Moment | Elapsed, name: str, arguments: tuple[Any, ...] = ()) -> Any:
    """A method of a time or duration. Raises TemplateError."""
    methods, kind = (_MOMENT, "*time.Time") if isinstance(value, Moment) else (
        _ELAPSED, "*time.Duration")  # fmt: skip
    if name not in methods:
        raise TemplateError(f"can't evaluate field {name} in type {kind}")
    try:
        return methods[name](value, *arguments)
    except (TypeError, AttributeError):
        raise TemplateError(f"wrong arguments for the method {name}") from None
