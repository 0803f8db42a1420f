"""Values of CSV: exact text for every float64, its NaN bits included."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from engine.series import STALE_BITS, STALE_NAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Float64Array

STALE = "stale"
_PLAIN_NAN_BITS = int(np.float64("nan").view(np.uint64))
# C99 writes a NaN's payload in parentheses; any other NaN than the usual one is data too.
_PAYLOAD = re.compile(r"NaN\(0x([0-9a-f]{16})\)")


def format_value(value: np.float64) -> str:
    """The shortest text that reads back as the same bits."""
    if value == value:  # noqa: PLR0124 - not NaN
        return {"inf": "+Inf", "-inf": "-Inf"}.get(text := repr(float(value)), text)
    bits = int(np.asarray(value).view(np.uint64))
    if bits == STALE_BITS:
        return STALE
    return "NaN" if bits == _PLAIN_NAN_BITS else f"NaN(0x{bits:016x})"


def overflows(text: str, value: float) -> bool:
    """Whether a number's text is larger than every float64, and no spelling of infinity."""
    return math.isinf(value) and "inf" not in text.lower()


def parse_values(column: Sequence[str]) -> tuple[Float64Array, int | None]:
    """float64[N] and the position of the first text that is no value."""
    values, wrong = _parse(column)
    if wrong is None:
        infinite = np.flatnonzero(np.isinf(values)).tolist()
        wrong = next((i for i in infinite if overflows(column[i], values[i])), None)
    return values, wrong


def _parse(column: Sequence[str]) -> tuple[Float64Array, int | None]:
    array = np.asarray(column, dtype=object)
    if not any("_" in text for text in column):
        try:
            plain: Float64Array = array.astype(np.float64)
        except ValueError:
            pass  # a marker, a payload or an error: below, one by one
        else:
            return plain, None
    special = np.array([text[:1] in "sN_" or "_" in text or "(" in text for text in array])
    values: Float64Array = np.empty(array.size, dtype=np.float64)
    try:
        values[~special] = array[~special].astype(np.float64)
    except ValueError:
        return values, _first_bad(column)
    for position in np.flatnonzero(special):
        bits = _special_bits(array[position])
        if bits is None:
            return values, _first_bad(column)
        # Through the integer view: a float assignment could quieten a signalling NaN.
        values.view(np.uint64)[position] = bits
    return values, None


def _special_bits(text: str) -> int | None:
    text = text.strip()
    if text == STALE:
        return int(STALE_NAN.view(np.uint64))
    if text.lower() == "nan":
        return _PLAIN_NAN_BITS
    found = _PAYLOAD.fullmatch(text)
    if found is None:
        return None
    bits = int(found[1], 16)
    is_nan = bits & 0x7FF0000000000000 == 0x7FF0000000000000 and bits & 0xFFFFFFFFFFFFF
    return bits if is_nan else None


def _first_bad(array: Sequence[str]) -> int | None:
    for position, text in enumerate(array):
        if "_" in text:
            return position
        try:
            float(text)
        except ValueError:
            if _special_bits(text) is None:
                return position
    return None
