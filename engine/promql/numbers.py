"""Numbers as text, as Go's strconv writes and reads them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np

_FLOAT = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    r"|0[xX](?:[\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)[pP][+-]?\d+)",
    re.ASCII,
)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return None


def format_plain(value: float) -> str:
    """The shortest decimal form that reads back as `value`, never with an exponent."""
    return _special(value) or np.format_float_positional(value, trim="-")


def format_general(value: float) -> str:
    """Go's `%g`: the shortest form, with an exponent below 1e-4 and from 1e21 on."""
    special = _special(value)
    if special is not None:
        return special
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        return format_plain(value)
    return np.format_float_scientific(value, trim="-", exp_digits=2)


def format_open_metrics(value: float) -> str:
    """`%g` with a `.0` where it would look like an integer: a quantile as a label's value.

    Source: FormatOpenMetricsFloat of model/labels.
    """
    text = format_general(value)
    return text if any(char in text for char in "e.nN") else f"{text}.0"


def format_value(value: float) -> str:
    """Go's shortest `f` form, its `e` form below 1e-6 and from 1e21: a sample in the API's JSON."""
    text = repr(value)
    if "e" not in text and "n" not in text:
        return text.removesuffix(".0")
    special = _special(value)
    if special is not None:
        return special
    return text if not 1e-6 <= abs(value) < 1e21 else f"{Decimal(text):f}"


def format_exponent(value: float) -> str:
    """Go's shortest `e` form (`1.5e+00`): how `/api/v1/alerts` writes an alert's value."""
    return _special(value) or np.format_float_scientific(value, trim="-", exp_digits=2)


def parse_float(text: str) -> float | None:
    """A number as Go's ParseFloat reads it, None if it is none."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    if not _FLOAT.fullmatch(text):
        return None
    return float.fromhex(text) if "x" in text.lower() else float(text)
