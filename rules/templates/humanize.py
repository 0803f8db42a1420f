"""Prometheus' humanize functions: numbers as people read them at night."""

from __future__ import annotations

import math
from typing import Any

from rules.templates.errors import TemplateError
from rules.templates.floats import general
from rules.templates.moments import Elapsed, Moment
from rules.templates.values import type_name

_SMALL = ("m", "u", "n", "p", "f", "a", "z", "y")
# Beyond these a time does not fit Go's nanoseconds.
_LATEST_SECONDS = 2**63 / 1e9


def to_float(value: Any) -> float:
    """A number, a string that reads as one, or a duration in seconds. Raises TemplateError."""
    if isinstance(value, Elapsed):
        return value.nanoseconds / 1e9
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TemplateError(f"can't convert {type_name(value)} to float")
    # Python reads more than Go does: white space around a number, digits of other scripts.
    if not isinstance(value, str) or (value.isascii() and value == value.strip()):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise TemplateError(f"'{value}' is not a number")


def humanize(value: Any) -> str:
    """`1.235M`: powers of a thousand, four digits."""
    number = to_float(value)
    if number == 0 or not math.isfinite(number):
        return general(number)
    if abs(number) >= 1:
        number, prefix = _scaled(number, 1000, ("k", "M", "G", "T", "P", "E", "Z", "Y"))
    else:
        number, prefix = _magnified(number)
    return general(number) + prefix


def humanize1024(value: Any) -> str:
    """`1.5Ki`: powers of 1024."""
    number = to_float(value)
    if abs(number) <= 1 or not math.isfinite(number):
        return general(number)
    prefixes = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
    number, prefix = _scaled(number, 1024, prefixes)
    return general(number) + prefix


def humanize_duration(value: Any) -> str:
    """`1d 2h 3m 4s` from seconds; below a minute with four digits, below a second `12ms`."""
    number = to_float(value)
    if not math.isfinite(number):
        return general(number)
    if number == 0:
        return general(number) + "s"
    if abs(number) < 1:
        number, prefix = _magnified(number)
        return f"{general(number)}{prefix}s"
    sign, number = ("-", -number) if number < 0 else ("", number)
    minutes, seconds = _divided(_int64(number), 60)
    hours, minutes = _divided(minutes, 60)
    days, hours = _divided(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    if minutes:
        return f"{sign}{minutes}m {seconds}s"
    return f"{sign}{general(number)}s"


def humanize_percentage(value: Any) -> str:
    """`12.5%` from a ratio."""
    return general(to_float(value) * 100) + "%"


def humanize_timestamp(value: Any) -> str:
    """`2026-11-29 21:23:57 +0000 UTC` from unix seconds."""
    number = to_float(value)
    if not math.isfinite(number):
        return general(number)
    return str(moment_of(number))


def moment_of(seconds: float) -> Moment:
    """A time from finite unix seconds, cut to milliseconds toward zero, as Prometheus does.

    Raises TemplateError for one that does not fit.
    """
    if abs(seconds) >= _LATEST_SECONDS:
        raise TemplateError(f"{general(seconds)} is too far away for a time")
    return Moment(int(int(seconds * 1e9) / 1e6) * 10**6)


def _int64(number: float) -> int:
    """Go's int64(x) on amd64: what does not fit is the smallest one."""
    return int(number) if abs(number) < 2**63 else -(2**63)


def _divided(number: int, by: int) -> tuple[int, int]:
    """Go's quotient and remainder: cut toward zero."""
    quotient = abs(number) // by * (1 if number >= 0 else -1)
    return quotient, number - quotient * by


def _scaled(number: float, base: int, prefixes: tuple[str, ...]) -> tuple[float, str]:
    prefix = ""
    for larger in prefixes:
        if abs(number) < base:
            break
        prefix = larger
        number /= base
    return number, prefix


def _magnified(number: float) -> tuple[float, str]:
    prefix = ""
    for smaller in _SMALL:
        if abs(number) >= 1:
            break
        prefix = smaller
        number *= 1000
    return number, prefix
