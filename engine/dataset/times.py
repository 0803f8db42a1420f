"""Timestamps of long form: unix milliseconds, RFC 3339, or naive (read as UTC)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import BoolArray, Int64Array

TIME_HINT = "unix milliseconds (1700000000000) or RFC 3339 (2026-01-02T03:04:05Z), years 1 to 9999"
# What RFC 3339 can say. Beyond it, a number is in another unit than it was taken for.
EARLIEST_MS = -62_135_596_800_000
LATEST_MS = 253_402_300_799_999
NAIVE_NOTICE = "timestamps without a time zone were read as UTC"
_ZONE = r"(?:[Zz]|[+-]\d\d:?\d\d)$"
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_NUMBER = r"-?\d{1,15}(?:\.\d+)?(?:[eE]\+?\d+)?"


def out_of_calendar(times_ms: Int64Array) -> int | None:
    """The position of the first time that RFC 3339 cannot say, None if there is none."""
    outside = ~_in_calendar(times_ms)
    return int(np.argmax(outside)) if outside.any() else None


def _in_calendar(times_ms: Int64Array) -> BoolArray:
    inside: BoolArray = (times_ms >= EARLIEST_MS) & (times_ms <= LATEST_MS)
    return inside


def parse_times(column: Sequence[str]) -> tuple[Int64Array, bool, int | None]:
    """Unix milliseconds, whether any text was naive, and the position of the first bad one."""
    import pandas as pd

    if all(map(_INTEGER.fullmatch, column)):
        whole = np.array(column, dtype=object).astype(np.int64)
        return whole, False, out_of_calendar(whole)
    texts = pd.Series(column, dtype=object).str.strip()
    numeric = texts.str.fullmatch(_NUMBER).to_numpy(dtype=np.bool_)
    times = np.zeros(len(texts), dtype=np.int64)
    with np.errstate(over="ignore"):
        floats = texts[numeric].astype(float).to_numpy()
    in_range = np.abs(floats) < 2.0**53
    times[numeric] = np.where(in_range, np.floor(floats), 0).astype(np.int64)
    bad = np.zeros(len(texts), dtype=np.bool_)
    bad[numeric] = ~in_range
    written = texts[~numeric]
    parsed = pd.to_datetime(written, utc=True, format="ISO8601", errors="coerce")
    unreadable = parsed.isna().to_numpy()
    bad[~numeric] = unreadable
    stamps = parsed.dt.tz_localize(None).to_numpy().astype("datetime64[ms]").astype(np.int64)
    times[~numeric] = stamps
    bad |= ~_in_calendar(times)
    naive = not written.str.contains(_ZONE).all()
    return times, naive, int(np.argmax(bad)) if bad.any() else None


def parse_starts(column: Sequence[str]) -> tuple[Int64Array | None, bool, int | None]:
    """As `parse_times`, of fields that may be empty: 0 for those, None where all are."""
    filled = [row for row, text in enumerate(column) if text.strip()]
    if not filled:
        return None, False, None
    times, naive, bad = parse_times([column[row] for row in filled])
    starts = np.zeros(len(column), dtype=np.int64)
    starts[filled] = times
    return starts, naive, None if bad is None else filled[bad]
