"""The notation of native histograms: `{{schema:0 sum:5 count:4 buckets:[1 2 1]}}`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

HISTOGRAM = r"\{\{[^{}]*\}\}"
_NUMBER = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI][nN][fF]|[nN][aA][nN])"
_FIELD = re.compile(
    rf"\s*(?P<name>[a-z_]+)\s*:\s*"
    rf"(?:(?P<number>{_NUMBER})(?=[\s}}])|\[(?P<list>[^\]]*)\]|(?P<word>[a-z_]+))\s*",
    re.ASCII,
)
_ELEMENT = re.compile(_NUMBER, re.ASCII)
_LISTS = ("buckets", "n_buckets", "custom_values")
_NUMBERS = ("sum", "count", "z_bucket", "z_bucket_w")
_INTEGERS = ("schema", "offset", "n_offset")
_HINTS = ("unknown", "reset", "not_reset", "gauge")
_ORDER = ("schema", "count", "sum", "z_bucket", "z_bucket_w", "offset", "buckets", "n_offset",
          "n_buckets", "custom_values", "counter_reset_hint")  # fmt: skip
_ADDED = ("sum", "count", "z_bucket")


@dataclass
class _Histogram:
    numbers: dict[str, float] = field(default_factory=dict)
    lists: dict[str, list[float]] = field(default_factory=dict)
    hint: str = ""


def histogram_text(start: str, step: str | None, times: int) -> str:
    """`start`, or `start` plus `times` times `step`, with its fields in one order.

    Counts of buckets are added by their index. Raises ValueError for a field that there is not,
    twice the same field, a wrong value.
    """
    histogram = _parse(start)
    if step is not None:
        _add(histogram, _parse(step), times)
    return _text(histogram)


def classic_text(buckets: dict[float, float], count: float | None, total: float) -> str:
    """The native histogram with custom buckets of a classic one, given its cumulative buckets."""
    bounds = sorted(buckets)
    counts = [buckets[bound] for bound in bounds]
    if count is None:
        count = counts[-1] if counts else 0.0
    if not bounds or bounds[-1] != float("inf"):
        counts.append(count)
    own = [after - before for before, after in zip([0.0, *counts], counts, strict=False)]
    values = [bound for bound in bounds if bound != float("inf")]
    numbers = {"schema": -53.0, "count": count, "sum": total}
    return _text(_Histogram(numbers, {"buckets": own, "custom_values": values}))


def _parse(text: str) -> _Histogram:
    histogram = _Histogram()
    body = text[2:-1]
    position = 0
    while body[position:].strip() != "}":
        match = _FIELD.match(body, position)
        if match is None:
            raise ValueError(f"unreadable histogram {text}, at {body[position:-1].strip()!r}")
        _set(histogram, match, text)
        position = match.end()
    return histogram


def _set(histogram: _Histogram, match: re.Match[str], text: str) -> None:
    name = match["name"]
    if name not in _ORDER:
        raise ValueError(f"unknown field {name!r} in the histogram {text}")
    if (
        name in histogram.numbers
        or name in histogram.lists
        or (name == "counter_reset_hint" and histogram.hint)
    ):
        raise ValueError(f"the field {name!r} comes twice in the histogram {text}")
    if name in _LISTS and match["list"] is not None:
        elements = match["list"].split()
        if not all(_ELEMENT.fullmatch(element) for element in elements):
            raise ValueError(f"not a list of numbers: {name} in the histogram {text}")
        histogram.lists[name] = [float(element) for element in elements]
    elif name == "counter_reset_hint" and match["word"] in _HINTS:
        histogram.hint = match["word"]
    elif match["number"] is not None and (
        name in _NUMBERS or (name in _INTEGERS and _is_integer(match["number"]))
    ):
        histogram.numbers[name] = float(match["number"])
    else:
        raise ValueError(f"wrong value of {name!r} in the histogram {text}")


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None


def _add(histogram: _Histogram, step: _Histogram, times: int) -> None:
    for name in _ADDED:
        if name in histogram.numbers or name in step.numbers:
            added = times * step.numbers.get(name, 0.0) if times else 0.0
            histogram.numbers[name] = histogram.numbers.get(name, 0.0) + added
    for name, offset in (("buckets", "offset"), ("n_buckets", "n_offset")):
        if not step.lists.get(name) or not times:
            continue
        counts: dict[int, float] = {}
        for source, factor in ((histogram, 1), (step, times)):
            first = int(source.numbers.get(offset, 0.0))
            for number, count in enumerate(source.lists.get(name, [])):
                counts[first + number] = counts.get(first + number, 0.0) + factor * count
        low, high = min(counts), max(counts)
        histogram.lists[name] = [counts.get(index, 0.0) for index in range(low, high + 1)]
        if low or offset in histogram.numbers:
            histogram.numbers[offset] = float(low)


def _text(histogram: _Histogram) -> str:
    parts = []
    for name in _ORDER:
        if name in histogram.numbers:
            parts.append(f"{name}:{_shown(histogram.numbers[name])}")
        elif name in histogram.lists:
            parts.append(f"{name}:[{' '.join(map(_shown, histogram.lists[name]))}]")
    if histogram.hint:
        parts.append(f"counter_reset_hint:{histogram.hint}")
    return f"{{{{{' '.join(parts)}}}}}"


def _shown(value: float) -> str:
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
