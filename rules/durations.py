"""Prometheus durations: `1h30m`, units from years to milliseconds, each once, largest first."""

from __future__ import annotations

import re

from rules.errors import StallwatchError

UNITS_MS = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
# Prometheus keeps a duration in a signed 64-bit count of nanoseconds.
LONGEST_MS = (2**63 - 1) // 1_000_000

_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in UNITS_MS), re.ASCII)
_PIECE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})[ \t]*([A-Za-z]+)")
# What people write for the units. A month is taken as 30 days.
_SPELLINGS = {
    "y": "y yr yrs year years",
    "w": "w wk wks week weeks",
    "d": "d day days",
    "h": "h hr hrs hour hours",
    "m": "m min mins minute minutes",
    "s": "s sec secs second seconds",
    "ms": "ms msec msecs milli millis millisecond milliseconds",
}
_MEANT_MS = {word: UNITS_MS[unit] for unit, words in _SPELLINGS.items() for word in words.split()}
_MEANT_MS |= dict.fromkeys(("mo", "mon", "month", "months"), 30 * UNITS_MS["d"])


class DurationError(StallwatchError):
    """A text is not a duration."""


def parse_duration(text: str) -> int:
    """The milliseconds of a duration such as `5m` or `1h30m`; `0` needs no unit.

    Raises DurationError, whose text says what is wrong and how a duration is written.
    """
    if text == "0":
        return 0
    if not text:
        raise DurationError("a duration is missing, such as '30s', '5m' or '1h30m'")
    # 20 digits already exceed what fits; longer ones need not be converted.
    found = _DURATION.fullmatch(text)
    if found is None:
        raise DurationError(f"not a valid duration: '{_shorten(text)}'{_reason(text)}")
    counts = found.groups()
    if any(count is not None and len(count.lstrip("0")) > 20 for count in counts):
        raise DurationError(f"duration out of range: '{_shorten(text)}'")
    total = sum(
        int(count) * unit
        for count, unit in zip(counts, UNITS_MS.values(), strict=True)
        if count is not None
    )
    if total > LONGEST_MS:
        raise DurationError(f"duration out of range: '{_shorten(text)}' is above 292 years")
    return total


def format_duration(milliseconds: int) -> str:
    """The shortest exact text of a duration, as Prometheus writes it: 90000 is `1m30s`."""
    if milliseconds == 0:
        return "0s"
    sign, rest = ("-", -milliseconds) if milliseconds < 0 else ("", milliseconds)
    parts = []
    for unit, size in UNITS_MS.items():
        # Prometheus writes years and weeks only when nothing is left over: 8d rather than 1w1d.
        if unit in {"y", "w"} and rest % size:
            continue
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


def suggest_duration(text: str) -> str | None:
    """The duration probably meant by a text that is none (`5min`, `1.5h`, `30m1h`), or None."""
    pieces = _PIECE.findall(text)
    if not pieces or _PIECE.sub("", text).strip(" \t,"):
        return None
    sizes = [_MEANT_MS.get(unit, _MEANT_MS.get(unit.lower())) for _, unit in pieces]
    if None in sizes:
        return None
    counts = [float(count) for count, _ in pieces]
    meant = round(sum(count * (size or 0) for count, size in zip(counts, sizes, strict=True)))
    return format_duration(meant) if 0 < meant <= LONGEST_MS else None


def _reason(text: str) -> str:
    if text.startswith("-"):
        return "; a negative duration makes no sense here"
    if re.fullmatch(r"[0-9]+", text):
        return f"; the unit is missing, such as '{text}s' or '{text}m'"
    if re.fullmatch(r"[0-9]*\.[0-9]+[a-z]*", text):
        return "; a fraction is written with a smaller unit, such as '1m30s' for 1.5m"
    if re.search(r"\s", text):
        return "; it has no spaces, such as '1h30m'"
    if re.search(r"(?i)sec|min|hour|hr|day", text) or re.search(r"[A-Z]", text):
        return "; the units are y, w, d, h, m, s and ms"
    if text.isascii() and all(unit in UNITS_MS for unit in re.findall(r"[a-z]+", text)):
        return "; each unit comes once and the largest first, such as '1h30m'"
    return "; the units are y, w, d, h, m, s and ms, such as '30s', '5m' or '1h30m'"


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
