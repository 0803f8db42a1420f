"""The section `time_intervals` and its old spelling `mute_time_intervals`.

Ranges and what is refused are those of timeinterval/timeinterval.go in Alertmanager.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from engine.config.model import TimeInterval, TimeIntervalConfig
from rules.document import Scalar
from rules.fields import Fields
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.config.model import Ranges
    from rules.document import Mapping as MappingNode
    from rules.document import Node
    from rules.fields import Report

SECTIONS = ("time_intervals", "mute_time_intervals")
_INTERVAL = ("times", "weekdays", "days_of_month", "months", "years", "location")
_TIME = re.compile(r"(?:([01][0-9]|2[0-3]):([0-5][0-9])|(24):(00))", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}", re.ASCII)
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
# The shortest month: whatever is the wrong way round there is so in every month.
_FEWEST_DAYS = 28
UTC = "UTC"
# The machine's own time zone, by Go's name.
LOCAL = "Local"


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the ends of a range may be. `names` count from `first`; numbers only with bounds."""

    what: str
    example: str
    names: tuple[str, ...] = ()
    first: int = 0
    bounds: tuple[int, int] | None = None

    def number(self, text: str) -> int | None:
        """The number that a text stands for; None: it stands for none."""
        if text in self.names:
            return self.names.index(text) + self.first
        if self.bounds is None or not _NUMBER.fullmatch(text):
            return None
        number = int(text)
        return number if self.bounds[0] <= number <= self.bounds[1] else None


_KINDS: Mapping[str, _Kind] = {
    "weekdays": _Kind("a day of the week", "such as 'saturday' or 'monday:friday'", _DAYS),
    "days_of_month": _Kind("a day of the month", "such as '1', '1:7' or '-3:-1'", bounds=(-31, 31)),
    "months": _Kind("a month", "such as 'may', '5' or 'may:august'", _MONTHS, 1, (1, 12)),
    "years": _Kind("a year", "such as '2026' or '2026:2028'", bounds=(0, 999_999_999)),
}


def read_time_intervals(report: Report, root: MappingNode) -> tuple[TimeIntervalConfig, ...]:
    """The named intervals of both sections; problems are reported."""
    found: dict[str, TimeIntervalConfig] = {}
    for section in SECTIONS:
        for node in Fields(report, root).items(section):
            fields = Fields.of(report, node, "a time interval", ("name", "time_intervals"))
            name = None if fields is None else fields.text("name")
            if fields is None:
                continue
            if name is None or not name.value:
                report.add(
                    fields.head, "a time interval needs a 'name'", "such as 'weekends'", "time"
                )
                continue
            if name.value in found:
                message = f"there are two time intervals named '{name.value}'"
                report.add(name.span, message, "give each a name of its own", "time")
            parts = (_interval(report, part) for part in fields.items("time_intervals"))
            found[name.value] = TimeIntervalConfig(
                name=name.value, time_intervals=tuple(part for part in parts if part is not None)
            )
    return tuple(found.values())


def _interval(report: Report, node: Node) -> TimeInterval | None:
    fields = Fields.of(report, node, "an interval", _INTERVAL)
    if fields is None:
        return None
    ranges = {name: _ranges(fields, name, _KINDS[name]) for name in _KINDS}
    return TimeInterval(times=_times(fields), location=_location(fields), **ranges)


def _each(
    fields: Fields, name: str, read: Callable[[Node], tuple[int, int] | None]
) -> Ranges | None:
    if fields.entry(name) is None:
        return None
    found = (read(node) for node in fields.items(name))
    return tuple(one for one in found if one is not None)


def _times(fields: Fields) -> Ranges | None:
    def read(node: Node) -> tuple[int, int] | None:
        one = Fields.of(fields.report, node, "a time", ("start_time", "end_time"))
        if one is None:
            return None
        start, end = _minute(one, "start_time"), _minute(one, "end_time")
        if start is None or end is None:
            return None
        if start >= end:
            hint = "over midnight are two: one to '24:00' and one from '00:00'"
            fields.report.add(one.head, "'start_time' is not before 'end_time'", hint, "time")
            return None
        return start, end

    return _each(fields, "times", read)


def _minute(fields: Fields, name: str) -> int | None:
    """Minutes since midnight."""
    scalar = fields.text(name)
    if scalar is None or not scalar.value:
        if fields.entry(name) is None or scalar is not None:
            fields.report.add(fields.head, f"a time needs '{name}'", "such as '09:00'", "time")
        return None
    found = _TIME.fullmatch(scalar.value)
    if found is None:
        message = f"not a time of day: '{scalar.value}'"
        fields.report.add(scalar.span, message, "'00:00' to '24:00', with two digits each", "time")
        return None
    return int(found[1] or found[3]) * 60 + int(found[2] or found[4])


def _ranges(fields: Fields, name: str, kind: _Kind) -> Ranges | None:
    def read(node: Node) -> tuple[int, int] | None:
        if not isinstance(node, Scalar):
            fields.report.add(node.span, f"each of '{name}' is text", kind.example, "time")
            return None
        ends = node.value.lower().split(":")
        numbers = [kind.number(end) for end in ends]
        if len(ends) > 2 or None in numbers or (name == "days_of_month" and 0 in numbers):
            message = f"not {kind.what} or a range: '{node.value}'"
            fields.report.add(node.span, message, kind.example, "time")
            return None
        begin, end = numbers[0] or 0, numbers[-1] or 0
        if name == "days_of_month" and begin < 0 < end:
            message = "a range that begins at the month's end has to end there too"
            fields.report.add(node.span, message, "such as '-3:-1'", "time")
        elif _wrapped(name, begin) > _wrapped(name, end):
            hint = kind.example
            if kind.names:
                hint = f"write two, one to '{kind.names[-1]}' and one from '{kind.names[0]}'"
            fields.report.add(node.span, f"'{node.value}' ends before it begins", hint, "time")
        return begin, end

    return _each(fields, name, read)


def _wrapped(name: str, number: int) -> int:
    return number + _FEWEST_DAYS if name == "days_of_month" and number < 0 else number


def _location(fields: Fields) -> str:
    scalar = fields.text("location")
    if scalar is None or scalar.value in {"", UTC}:
        return UTC
    if scalar.value == LOCAL or _is_zone(scalar.value):
        return scalar.value
    message = f"there is no time zone '{scalar.value}'"
    fields.report.add(scalar.span, message, "such as 'Europe/Berlin' or 'UTC'", "time")
    return UTC


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a folder, a path that leads out, or nothing
        return False
    return True
