"""Since when samples count: `x@st` before `x` in the input series of a unit test.

As in Prometheus' `load` (promql/promqltest/test.go): times relative to each sample's own, for the
series of the entry that follows, or without a name for all that follow, over and over.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.ruletest.notation import MOST_SAMPLES
from rules.durations import DurationError, parse_duration
from rules.errors import StallwatchError
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.labels import Labels
    from rules.source import Span

START_SUFFIX = "@st"
_GAP = re.compile(r"_(?:x(\d{1,9}))?", re.ASCII)
_ITEM = re.compile(
    r"(?P<start>[+-]?[0-9a-wyz]+|\*)(?:(?P<step>[+-][+-]?[0-9a-wyz]+)?x(?P<times>\d{1,9}))?",
    re.ASCII,
)
_HINT = "start times are written as -30s, 0, -1mx3, -1m-30sx3, *, _ or _x3"


class StartTimeError(StallwatchError):
    """A start time that means nothing, or one too many or too few."""

    def __init__(self, message: str, hint: str = _HINT) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class StartTimes:
    """What has been said of series that are yet to come."""

    usual: tuple[int | None, ...] = ()
    pending: tuple[Labels, tuple[int | None, ...], Span] | None = None

    def read(self, labels: Labels, text: str, span: Span) -> None:
        """An `@st` entry. Raises StartTimeError."""
        found = read_starts(text)
        if labels.pairs:
            self.pending = (labels, found, span)
        else:
            self.usual = found

    def settle(self) -> Span | None:
        """Where an entry stands whose series did not come."""
        pending, self.pending = self.pending, None
        return None if pending is None else pending[2]

    def of(self, labels: Labels, count: int) -> tuple[int | None, ...]:
        """For each of a series' `count` samples. Raises StartTimeError."""
        pending, self.pending = self.pending, None
        if pending is None:
            usual = self.usual
            return tuple(usual[index % len(usual)] for index in range(count)) if usual else ()
        owner, found, _ = pending
        if owner != labels:
            hint = "its samples come right after it"
            raise StartTimeError(f"the '{START_SUFFIX}' before is of {owner}", hint)
        if len(found) != count:
            hint = "one for each sample and gap"
            raise StartTimeError(f"{len(found)} start times for {count} samples", hint)
        return found


def read_starts(text: str) -> tuple[int | None, ...]:
    """Milliseconds from each sample's own time, None where there is none. Raises StartTimeError."""
    found: list[int | None] = []
    for token in text.split():
        if gap := _GAP.fullmatch(token):
            if gap[1] == "0":
                raise StartTimeError(f"a repeat of 0 in '{token[:60]}'")
            found += [None] * _repeats(gap[1] or "1")
            continue
        item = _ITEM.fullmatch(token)
        if item is None or (item["start"] == "*" and item["step"]):
            raise StartTimeError(f"'{token[:60]}' is no start time")
        if item["start"] == "*":
            value = next((one for one in reversed(found) if one is not None), 0)
        else:
            value = _signed_ms(item["start"])
        step = _signed_ms(item["step"]) if item["step"] else 0
        found += [value + number * step for number in range(_repeats(item["times"] or "0") + 1)]
    return tuple(found)


def _signed_ms(text: str) -> int:
    sign = 1
    while text[:1] in {"+", "-"}:
        sign, text = (-sign if text[0] == "-" else sign), text[1:]
    try:
        return sign * parse_duration(text)
    except DurationError as error:
        raise StartTimeError(f"'{text[:60]}' is no start time: {error}") from None


def _repeats(digits: str) -> int:
    if int(digits) > MOST_SAMPLES:
        raise StartTimeError(f"more than {MOST_SAMPLES:,} samples in one series")
    return int(digits)
