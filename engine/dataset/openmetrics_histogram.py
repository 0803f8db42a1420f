"""Native histograms as OpenMetrics 2.0 writes them, and as everything else here does.

There: `{count:4,sum:5.6,schema:1,zero_threshold:0.1,zero_count:1,positive_spans:[-1:2],
positive_buckets:[4,2]}`, a span being how far its first bucket is from the end of the span before
(from 0 for the first one) and its length; with bounds of one's own instead of a schema
`{count:6,sum:4,bucket:[1:1,2.5:3,+Inf:6]}`, counts cumulative.
"""

from __future__ import annotations

import re
from itertools import groupby, pairwise

from engine.native_histogram import MOST_BUCKETS, Histogram, HistogramError, fields_of

_FIELD = re.compile(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^\s,\[\]]+)\s*(?:,|$)")
_PLAIN = {
    "count": "count", "sum": "sum", "schema": "schema", "zero_count": "z_bucket",
    "zero_threshold": "z_bucket_w",
}  # fmt: skip
_SIDES = (("positive", "buckets", "offset"), ("negative", "n_buckets", "n_offset"))
_CUSTOM_SCHEMA = -53


def read_openmetrics(text: str) -> str:
    """Promqltest's notation of OpenMetrics'. Raises HistogramError."""
    fields = fields_of(text[1:-1], _FIELD)
    parts = [f"{own}:{fields.pop(name)}" for name, own in _PLAIN.items() if name in fields]
    for side, buckets, offset in _SIDES:
        spans = _list(fields.pop(f"{side}_spans", "[]"))
        counts = _list(fields.pop(f"{side}_buckets", "[]"))
        first, filled = _laid_out(spans, counts)
        if filled:
            parts += [f"{offset}:{first}"] if first else []
            parts.append(f"{buckets}:[{' '.join(filled)}]")
    if "bucket" in fields:
        parts += _custom(_list(fields.pop("bucket")))
    if fields:
        raise HistogramError(f"a native histogram of OpenMetrics has no '{next(iter(fields))}'")
    found = "{{" + " ".join(parts) + "}}"
    Histogram.read(found)
    return found


def write_openmetrics_histogram(text: str) -> str:
    """OpenMetrics' notation of promqltest's. Raises HistogramError."""
    own = Histogram.read(text)
    parts = [f"count:{_shown(own.count)}", f"sum:{_shown(own.total)}"]
    if own.schema == _CUSTOM_SCHEMA:
        bounds = [*own.bounds, float("inf")]
        reached, pairs = 0.0, []
        for index, bound in enumerate(bounds):
            reached += own.positive.get(index, 0.0)
            pairs.append(f"{_shown(bound)}:{_shown(reached)}")
        return "{" + ",".join([*parts, f"bucket:[{','.join(pairs)}]"]) + "}"
    parts += [f"schema:{own.schema}", f"zero_threshold:{_shown(own.zero_width)}"]
    parts.append(f"zero_count:{_shown(own.zero_count)}")
    for side, buckets in (("negative", own.negative), ("positive", own.positive)):
        filled = sorted(index for index, count in buckets.items() if count)
        if filled:
            spans = ",".join(f"{gap}:{length}" for gap, length in _spans(filled))
            counts = ",".join(_shown(buckets[index]) for index in filled)
            parts += [f"{side}_spans:[{spans}]", f"{side}_buckets:[{counts}]"]
    return "{" + ",".join(parts) + "}"


def _list(text: str) -> list[str]:
    if not text.startswith("["):
        raise HistogramError(f"not a list in a native histogram: '{text[:40]}'")
    return [part.strip() for part in text[1:-1].split(",") if part.strip()]


def _laid_out(spans: list[str], counts: list[str]) -> tuple[int, list[str]]:
    """The index of the first bucket, and the counts from there on without gaps."""
    indices: list[int] = []
    end = 0
    for span in spans:
        match = re.fullmatch(r"(-?\d{1,6}):(\d{1,6})", span, re.ASCII)
        if match is None:
            raise HistogramError(f"not a span of buckets: '{span[:40]}'")
        start = end + int(match[1])
        end = start + int(match[2])
        if (indices and start < indices[-1] + 1) or end - (indices or [start])[0] > MOST_BUCKETS:
            raise HistogramError(f"a span of buckets is out of order or too far: '{span[:40]}'")
        indices += range(start, end)
    if len(indices) != len(counts):
        raise HistogramError(f"{len(counts)} counts for {len(indices)} buckets in spans")
    if not indices:
        return 0, []
    filled = ["0"] * (indices[-1] - indices[0] + 1)
    for index, count in zip(indices, counts, strict=True):
        filled[index - indices[0]] = count
    return indices[0], filled


def _custom(pairs: list[str]) -> list[str]:
    """Cumulative counts by upper bound, as counts between bounds."""
    try:
        found = sorted(
            (float(bound), float(count)) for bound, _, count in (p.partition(":") for p in pairs)
        )
    except ValueError:
        raise HistogramError(f"not a list of buckets: '{','.join(pairs)[:40]}'") from None
    reached = [0.0, *(count for _, count in found)]
    counts = " ".join(_shown(after - before) for before, after in pairwise(reached))
    bounds = " ".join(_shown(bound) for bound, _ in found if bound != float("inf"))
    return [f"schema:{_CUSTOM_SCHEMA}", f"custom_values:[{bounds}]", f"buckets:[{counts}]"]


def _spans(indices: list[int]) -> list[tuple[int, int]]:
    runs = [
        [index for _, index in run]
        for _, run in groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0])
    ]
    ends = [0, *(run[-1] + 1 for run in runs)]
    return [(run[0] - end, len(run)) for run, end in zip(runs, ends, strict=False)]


def _shown(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(text := repr(value), text)
