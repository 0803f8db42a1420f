"""The small notations inside a script: durations, series names and sequences of values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.labels import METRIC_NAME, Labels
from rules.durations import DurationError, parse_duration

from .histograms import HISTOGRAM, histogram_text

# No hexadecimal: `0x5` is six zeros.
_NUMBER = r"(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI][nN][fF]|[nN][aA][nN])"
_ITEM = re.compile(
    rf"(?P<start>[+-]?{_NUMBER})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>\d+))?", re.ASCII
)
_GAP = re.compile(r"_(?:x(\d+))?", re.ASCII)
_HISTOGRAMS = re.compile(rf"(?P<start>{HISTOGRAM})(?:(?P<step>[+-]{HISTOGRAM})?x(?P<times>\d+))?")
_TOKEN = re.compile(r"(?:\{\{.*?\}\}|[^\s{])+|.")
_START = re.compile(
    r"(?P<start>[+-]?[0-9a-wyz]+|\*)(?:(?P<step>[+-][+-]?[0-9a-wyz]+)?x(?P<times>\d+))?", re.ASCII
)
_LABEL = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_][\w.:]*)|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`))"""
    r"""\s*(?:=\s*(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*)?(?P<end>,|(?=\}))""",
    re.ASCII,
)
_OPEN = re.compile(r"\{(?!\{)\s*")
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`""")
_ESCAPE = re.compile(
    r"""\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{3})|([abfnrtv\\'"])|(.|$))""",
    re.DOTALL,
)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NAME = re.compile(r"[A-Za-z_:][\w:]*", re.ASCII)
START_SUFFIX = "@st"
MOST_REPEATS = 1_000_000


class ScriptError(Exception):
    """A script, or the command at `line` of it, that means nothing. `reason` stands alone."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True)
class Stale:
    """A staleness marker."""


@dataclass(frozen=True)
class NativeHistogram:
    """A native histogram: its fields in one order, as the engine keeps it."""

    text: str


Item = float | Stale | NativeHistogram | None


def duration_ms(text: str) -> int:
    """`5m`, `1h30m` or `0`, in milliseconds."""
    try:
        return parse_duration(text)
    except DurationError as error:
        raise ScriptError(str(error)) from None


def unquote(text: str) -> str:
    """A string literal as its value. Raises ScriptError."""
    if not _QUOTED.fullmatch(text):
        raise ScriptError(f"not a string in quotes: {text}")
    if text.startswith("`"):
        return text[1:-1]
    # Escaped bytes can be parts of one character.
    parts: list[bytes] = []
    position = 1
    for match in _ESCAPE.finditer(text, 1, len(text) - 1):
        parts.append(text[position : match.start()].encode())
        position = match.end()
        two, four, eight, octal, control, other = match.groups()
        if other is not None:
            raise ScriptError(f"unknown escape {match[0]} in {text}")
        if two or octal:
            parts.append(bytes([int(two, 16) if two else int(octal, 8) & 0xFF]))
        elif four or eight:
            parts.append(chr(int(four or eight, 16)).encode())
        else:
            parts.append(_CONTROLS.get(control, control).encode())
    parts.append(text[position:-1].encode())
    return b"".join(parts).decode("utf-8", "replace")


def split_series(line: str) -> tuple[Labels, bool, str]:
    """`name{a="b"}@st 1 2 3` as labels, whether it gives start times, and the values' text."""
    labels: dict[str, str] = {}
    name = _NAME.match(line)
    position = name.end() if name else 0
    if name:
        labels[METRIC_NAME] = name[0]
    if opening := _OPEN.match(line, position):
        position = _labels(line, opening.end(), labels)
    elif not name and not line.startswith(START_SUFFIX):
        raise ScriptError(f"expected a series or an 'expect' line, got {line!r}")
    starts = line.startswith(START_SUFFIX, position)
    position += len(START_SUFFIX) if starts else 0
    rest = line[position:]
    if rest and not rest[0].isspace():
        raise ScriptError(f"unexpected {rest[0]!r} after the series in {line!r}")
    return Labels({key: value for key, value in labels.items() if value}), starts, rest.strip()


def _labels(line: str, position: int, labels: dict[str, str]) -> int:
    while line[position : position + 1] != "}":
        match = _LABEL.match(line, position)
        if match is None:
            raise ScriptError(f"unreadable labels in {line!r}, at {line[position:]!r}")
        key = match["name"] or unquote(match["quoted"])
        if match["value"] is not None:
            labels[key] = unquote(match["value"])
        elif match["quoted"] and METRIC_NAME not in labels:
            labels[METRIC_NAME] = key
        else:
            raise ScriptError(f"the label {key!r} has no value in {line!r}")
        space = _SPACE.match(line, match.end())
        position = space.end() if space else match.end()
    return position + 1


def sequence(text: str) -> list[Item]:
    """`1 2+3x2 _ stale {{...}}` as one item per step; None where there is no sample."""
    items: list[Item] = []
    for token in _TOKEN.findall(text):
        if not token.isspace():
            items.extend(_items(token))
    return items


def _items(token: str) -> list[Item]:
    if gap := _GAP.fullmatch(token):
        return [None] * _repeats(gap[1] or "1")
    if token == "stale":
        return [Stale()]
    if found := _HISTOGRAMS.fullmatch(token):
        return _histograms(found)
    item = _ITEM.fullmatch(token)
    if item is None:
        forgotten = "; an empty line ends what is loaded" if token in {"instant", "range"} else ""
        raise ScriptError(f"not a value: {token!r}{forgotten}")
    value = float(item["start"])
    step = float(item["step"]) if item["step"] else None
    values: list[Item] = [value]
    for _ in range(_repeats(item["times"] or "0")):
        value = value if step is None else value + step
        values.append(value)
    return values


def _histograms(found: re.Match[str]) -> list[Item]:
    items: list[Item] = []
    for number in range(_repeats(found["times"] or "0") + 1):
        step, sign = found["step"], 1
        if step:
            sign, step = (-1 if step[0] == "-" else 1), step[1:]
        try:
            items.append(NativeHistogram(histogram_text(found["start"], step, sign * number)))
        except ValueError as error:
            raise ScriptError(str(error)) from None
    return items


def starts(text: str) -> list[int | None]:
    """A line of start times: milliseconds from each sample's own time, None where there is none."""
    found: list[int | None] = []
    for token in text.split():
        if gap := _GAP.fullmatch(token):
            if gap[1] == "0":
                raise ScriptError(f"a repeat of 0 in {token!r}")
            found.extend([None] * _repeats(gap[1] or "1"))
            continue
        item = _START.fullmatch(token)
        if item is None or (item["start"] == "*" and item["step"]):
            raise ScriptError(f"not a start time: {token!r}")
        if item["start"] == "*":
            value = next((one for one in reversed(found) if one is not None), 0)
        else:
            value = _signed_ms(item["start"])
        step = _signed_ms(item["step"]) if item["step"] else 0
        found.extend(value + number * step for number in range(_repeats(item["times"] or "0") + 1))
    return found


def _signed_ms(text: str) -> int:
    sign = 1
    while text[:1] in {"+", "-"}:
        sign, text = (-sign if text[0] == "-" else sign), text[1:]
    return sign * duration_ms(text)


def _repeats(text: str) -> int:
    count = int(text)
    if count > MOST_REPEATS:
        raise ScriptError(f"a repeat of {count} is above {MOST_REPEATS}")
    return count


def lone_number(text: str) -> float | None:
    """A line that is nothing but a number (a scalar result), else None."""
    try:
        return float(int(text, 0))
    except ValueError:
        pass
    try:
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        return None
