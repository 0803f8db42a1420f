"""Unix milliseconds to RFC 3339 and back, as Prometheus' and Alertmanager's JSON write them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

# What Go, and so Prometheus and Alertmanager, writes for a time that never was.
NEVER = "0001-01-01T00:00:00Z"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


def format_rfc3339(time_ms: int) -> str:
    """`2026-01-02T03:04:05.67Z`: UTC, trailing zeros of the fraction left out, as Go does."""
    # Not strftime: its %Y has no leading zeros here.
    whole = (EPOCH + timedelta(seconds=time_ms // 1000)).isoformat()[:19]
    fraction = f"{time_ms % 1000:03d}".rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


def unix_seconds(time_ms: int) -> int | float:
    """Unix seconds, without a fraction where there is none."""
    return time_ms // 1000 if time_ms % 1000 == 0 else time_ms / 1000


def parse_timestamp(text: str) -> int:
    """Unix milliseconds of a unix time in seconds (`1700000000.5`) or an RFC 3339 time.

    Raises ValueError, whose text is Prometheus' own.
    """
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            # NaN, infinities and years past 9999 are refused by timedelta and datetime themselves.
            at = EPOCH + timedelta(seconds=float(text))
            return round((at - EPOCH) / timedelta(milliseconds=1))
        *date, fraction, sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        local = datetime(*map(int, date), tzinfo=timezone.utc)  # type: ignore[misc,arg-type]
        at = local + offset if sign == "-" else local - offset
    except (ValueError, OverflowError):
        raise ValueError(f'cannot parse "{text}" to a valid timestamp') from None
    return (at - EPOCH) // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))
