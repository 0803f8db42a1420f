"""The small notations inside a script: durations, series names and sequences of values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.labels import METRIC_NAME, Labels

_UNITS_MS = {
    "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    "y": 31_536_000_000,
}  # fmt: skip
_DURATION = re.compile(r"(\d+)(ms|[smhdwy])")
# No hexadecimal: `0x5` is six zeros.
_NUMBER = r"(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI]nf|NaN|nan)"
_ITEM = re.compile(
    rf"(?P<start>[+-]?{_NUMBER})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>\d+))?", re.ASCII
)
_GAP = re.compile(r"_(?:x(\d+))?")
_HISTOGRAM = re.compile(r"\{\{.*?\}\}(?:[+-]\{\{.*?\}\})?(?:x(\d+))?")
_TOKEN = re.compile(r"(?:\{\{.*?\}\}|[^\s{])+")
_LABEL = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_][\w.:]*)|(?P<quoted>"(?:[^"\\]|\\.)*"))\s*"""
    r"""(?:=\s*(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*)?,?""",
    re.ASCII,
)
_ESCAPE = re.compile(r"\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_:][\w:]*", re.ASCII)


class ScriptError(Exception):
    """A script that does not parse."""


@dataclass(frozen=True)
class Stale:
    """A staleness marker."""


@dataclass(frozen=True)
class NativeHistogram:
    """A native histogram, kept as written."""

    text: str


Item = float | Stale | NativeHistogram | None


def duration_ms(text: str) -> int:
    """`5m`, `1h30m`, `-2s`, or plain seconds, in milliseconds."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return sign * round(float(body) * 1000)
    except ValueError:
        parts = _DURATION.findall(body)
        if "".join(number + unit for number, unit in parts) != body:
            raise ScriptError(f"bad duration {text!r}") from None
        return sign * sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def unquote(text: str) -> str:
    """A PromQL string literal as its value."""
    if text.startswith("`"):
        return text[1:-1]

    def value(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        return {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)

    return _ESCAPE.sub(value, text[1:-1])


def split_series(line: str) -> tuple[Labels, str, str]:
    """`name{a="b"}@st 1 2 3` as labels, the suffix `@st` or "", and the values' text."""
    labels: dict[str, str] = {}
    name = _NAME.match(line)
    position = name.end() if name else 0
    if name:
        labels[METRIC_NAME] = name[0]
    if line[position : position + 1] == "{":
        position += 1
        while line[position : position + 1] != "}":
            match = _LABEL.match(line, position)
            if match is None or match.end() == position:
                raise ScriptError(f"bad series {line!r}")
            key = match["name"] or unquote(match["quoted"])
            if match["value"] is None:
                labels[METRIC_NAME] = key
            else:
                labels[key] = unquote(match["value"])
            position = match.end()
            while line[position : position + 1].isspace():
                position += 1
        position += 1
    suffix = "@st" if line.startswith("@st", position) else ""
    return Labels(labels), suffix, line[position + len(suffix) :].strip()


def sequence(text: str) -> list[Item]:
    """`1 2+3x2 _ stale {{...}}` as one item per step; None where there is no sample."""
    items: list[Item] = []
    for token in _TOKEN.findall(text):
        items.extend(_items(token))
    return items


def _items(token: str) -> list[Item]:
    if gap := _GAP.fullmatch(token):
        return [None] * int(gap[1] or 1)
    if token == "stale":
        return [Stale()]
    if histogram := _HISTOGRAM.fullmatch(token):
        return [NativeHistogram(token)] * (int(histogram[1] or 0) + 1)
    item = _ITEM.fullmatch(token)
    if item is None:
        raise ScriptError(f"bad value {token!r}")
    value = float(item["start"])
    step = float(item["step"]) if item["step"] else 0.0
    values: list[Item] = [value]
    for _ in range(int(item["times"] or 0)):
        value = value + step if item["step"] else value
        values.append(value)
    return values


def lone_number(text: str) -> float | None:
    """A line that is nothing but a number (a scalar result), else None."""
    match = _ITEM.fullmatch(text)
    return float(text) if match and match["times"] is None else None
