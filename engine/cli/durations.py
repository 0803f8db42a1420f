"""Durations given as arguments."""

from __future__ import annotations

from rules.durations import DurationError, parse_duration
from rules.errors import StallwatchError


def read_interval(text: str) -> int:
    """--interval in milliseconds. Raises StallwatchError."""
    try:
        interval_ms = parse_duration(text)
    except DurationError as error:
        raise StallwatchError(f"stallwatch: --interval: {error}") from None
    if interval_ms <= 0:
        raise StallwatchError("stallwatch: --interval: must be longer than 0")
    return interval_ms


def read_duration(option: str, text: str) -> int:
    """A duration, or a number of seconds, in milliseconds. Raises StallwatchError."""
    try:
        milliseconds = round(float(text) * 1000)
    except ValueError:
        try:
            milliseconds = parse_duration(text)
        except (ValueError, StallwatchError) as error:
            raise StallwatchError(f"stallwatch: {option}: {error}") from None
    except OverflowError:
        milliseconds = 0
    if milliseconds <= 0:
        raise StallwatchError(f"stallwatch: {option}: '{text}' is not a positive duration")
    return milliseconds
