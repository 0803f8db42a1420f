"""YAML scalars as Go's library reads them into numbers and booleans."""

from __future__ import annotations

import re

_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WHOLE = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|0o?[0-7_]+)", re.ASCII)
_BASES = {"0x": 16, "0b": 2, "0o": 8}
_TRUTHS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n"), False),
}


def read_truth(text: str) -> bool | None:
    """A YAML 1.1 boolean; None for what is none."""
    return _TRUTHS.get(text)


def read_number(text: str) -> float | None:
    """A plain scalar as a float; None for what is none."""
    if text.lower() in {".inf", "+.inf", "-.inf"}:
        return float("-inf" if text[0] == "-" else "inf")
    if text in {".nan", ".NaN", ".NAN"}:
        return float("nan")
    plain = text.replace("_", "")
    try:
        if _WHOLE.fullmatch(text):
            return _whole(plain)
        return float(plain) if _FLOAT.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def _whole(text: str) -> float:
    digits = text.lstrip("+-")
    base = _BASES.get(digits[:2])
    value = int(digits, 8) if base is None else int(digits[2:], base)
    return float(-value if text[0] == "-" else value)
