"""Native histograms as unit tests write them: read, added up and compared, not computed with.

The notation and its canonical form are promqltest's (`FloatHistogram.TestExpression`):
`{{schema:1 count:4 sum:5.6 z_bucket:1 buckets:[4 2] offset:-1}}`, what is zero left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from engine.promql.numbers import format_general, parse_float
from rules.errors import StallwatchError
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from engine.ruletest.notation import HistogramRun

Hint = Literal["", "reset", "not_reset", "gauge"]

_FIELD = re.compile(r"\s*([a-z_]+):(\[[^\]]*\]|[^\s\[\]]+)")
_HINTS: dict[str, Hint] = {
    "unknown": "",
    "reset": "reset",
    "not_reset": "not_reset",
    "gauge": "gauge",
}
_NUMBERS = {"count": "count", "sum": "total", "z_bucket": "zero_count", "z_bucket_w": "zero_width"}
_LISTS = {"buckets": "offset", "n_buckets": "n_offset"}
# More buckets than this in one histogram are a typing error of an offset.
MOST_BUCKETS = 10_000


class HistogramError(StallwatchError):
    """A text is no native histogram, or two cannot be added bucket by bucket."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """`positive` and `negative`: populated buckets by index; `zero_width`: the zero threshold."""

    schema: int = 0
    count: float = 0.0
    total: float = 0.0
    zero_count: float = 0.0
    zero_width: float = 0.0
    positive: dict[int, float] = field(default_factory=dict)
    negative: dict[int, float] = field(default_factory=dict)
    bounds: tuple[float, ...] = ()
    hint: Hint = ""

    @classmethod
    def read(cls, text: str) -> Histogram:
        """From `{{...}}`. Raises HistogramError."""
        if not (text.startswith("{{") and text.endswith("}}")):
            raise HistogramError(f"'{text[:60]}' is no native histogram")
        fields = fields_of(text[2:-2], _FIELD)
        numbers = {
            own: _number(fields.pop(name)) for name, own in _NUMBERS.items() if name in fields
        }
        hint = fields.pop("counter_reset_hint", "unknown")
        if hint not in _HINTS:
            raise HistogramError(f"'{hint[:40]}' is no counter_reset_hint")
        bounds = tuple(_numbers(fields.pop("custom_values", "[]")))
        schema = _whole(fields.pop("schema", "0"))
        positive, negative = (
            _buckets(fields.pop(name, "[]"), fields.pop(offset, "0"))
            for name, offset in _LISTS.items()
        )
        if fields:
            raise HistogramError(f"a native histogram has no '{next(iter(fields))}'")
        return cls(
            schema,
            **numbers,
            positive=positive,
            negative=negative,
            bounds=bounds,
            hint=_HINTS[hint],
        )

    def plus(self, other: Histogram, sign: float) -> Histogram:
        """The sum (or difference). Raises HistogramError where buckets do not coincide."""
        if (self.schema, self.zero_width, self.bounds) != (
            other.schema, other.zero_width, other.bounds
        ):  # fmt: skip
            raise HistogramError("histograms with different buckets")
        return replace(
            self,
            count=self.count + sign * other.count,
            total=self.total + sign * other.total,
            zero_count=self.zero_count + sign * other.zero_count,
            positive=_added(self.positive, other.positive, sign),
            negative=_added(self.negative, other.negative, sign),
        )

    def following(self, previous: Histogram) -> Histogram:
        """As storage gives it back behind `previous`: it says whether a counter was reset."""
        if self.hint:
            return self
        fell = self.count < previous.count or self.zero_count < previous.zero_count
        for own, before in ((self.positive, previous.positive), (self.negative, previous.negative)):
            fell = fell or any(own.get(index, 0.0) < value for index, value in before.items())
        changed = (self.schema, self.bounds) != (previous.schema, previous.bounds)
        return replace(self, hint="reset" if fell or changed else "not_reset")

    def __str__(self) -> str:
        """The canonical form."""
        parts = [f"schema:{self.schema}"] if self.schema else []
        numbers = (("count", self.count), ("sum", self.total), ("z_bucket", self.zero_count),
                   ("z_bucket_w", self.zero_width))  # fmt: skip
        parts += [f"{name}:{format_general(value)}" for name, value in numbers if value != 0]
        if self.bounds:
            parts.append(f"custom_values:[{' '.join(map(format_general, self.bounds))}]")
        if self.hint:
            parts.append(f"counter_reset_hint:{self.hint}")
        for buckets, name, offset in (
            (self.positive, "buckets", "offset"), (self.negative, "n_buckets", "n_offset"),
        ):  # fmt: skip
            filled = [index for index, value in buckets.items() if value]
            if not filled:
                continue
            first, last = min(filled), max(filled)
            parts += [f"{offset}:{first}"] if first else []
            values = (format_general(buckets.get(i, 0.0)) for i in range(first, last + 1))
            parts.append(f"{name}:[{' '.join(values)}]")
        return "{{" + " ".join(parts) + "}}"


def expanded(run: HistogramRun) -> list[Histogram]:
    """The histograms of a run, in order. Raises HistogramError."""
    current = Histogram.read(run.text)
    found = [current]
    change = Histogram.read(run.change) if run.change else None
    for _ in range(run.copies):
        if change is not None:
            current = current.plus(change, -1.0 if run.sign == "-" else 1.0)
        found.append(current)
    return found


def fields_of(text: str, pattern: re.Pattern[str]) -> dict[str, str]:
    """Fields one after the other, (name, value) as `pattern` finds them. Raises HistogramError."""
    found: dict[str, str] = {}
    position, end = 0, len(text.rstrip())
    while position < end:
        match = pattern.match(text, position)
        if match is None:
            raise HistogramError(f"not a field of a native histogram: '{text[position:][:40]}'")
        if match[1] in found:
            raise HistogramError(f"'{match[1]}' appears twice in a native histogram")
        found[match[1]] = match[2]
        position = match.end()
    return found


def _number(text: str) -> float:
    value = parse_float(text)
    if value is None:
        raise HistogramError(f"not a number in a native histogram: '{text[:40]}'")
    return value


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,6}", text, re.ASCII):
        raise HistogramError(f"not a whole number in a native histogram: '{text[:40]}'")
    return int(text)


def _numbers(text: str) -> list[float]:
    if not text.startswith("["):
        raise HistogramError(f"not a list in a native histogram: '{text[:40]}'")
    return [_number(part) for part in text[1:-1].split()]


def _buckets(text: str, offset: str) -> dict[int, float]:
    values = _numbers(text)
    if len(values) > MOST_BUCKETS:
        raise HistogramError(f"more than {MOST_BUCKETS:,} buckets")
    first = _whole(offset)
    return {first + index: value for index, value in enumerate(values)}


def _added(own: dict[int, float], other: dict[int, float], sign: float) -> dict[int, float]:
    return {
        index: own.get(index, 0.0) + sign * other.get(index, 0.0)
        for index in sorted(own.keys() | other.keys())
    }
