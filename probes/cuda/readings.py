"""From what processes called to metrics and events. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Count, Event
from probes.cuda.functions import call_of, function_name
from probes.functions.histogram import Buckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Pairs, Process, Reading
    from probes.functions.records import Total
    from probes.functions.totals import SlowCall

CALLS = "cuda_calls_total"
ERRORS = "cuda_errors_total"
BYTES = "cuda_bytes_total"
SECONDS = "cuda_call_seconds"
SLOW = "cuda_slow_call"
# 3.8 microseconds to 16 s in steps of four: each bound is a series per call and rank.
BUCKETS = Buckets.of_durations(first=2, last=24, step=2)


def labels(slot_name: str) -> Pairs:
    """Those of a slot's calls."""
    return (("call", function_name(slot_name)),)


def counts(slot_name: str, process: Process | None, total: Total) -> Iterator[Reading]:
    """The counters of one slot; the first carries the weight of all its hits."""
    _, direction = call_of(slot_name)
    own = labels(slot_name)
    yield Count(CALLS, process, float(total.calls), own, weight=total.hits)
    if total.errors:
        yield Count(ERRORS, process, float(total.errors), own)
    if direction and total.bytes_total:
        pairs = (*own, ("direction", direction))
        yield Count(BYTES, process, float(total.bytes_total), pairs)
    yield from BUCKETS.counts(SECONDS, process, total, own)


def slow_event(slow: SlowCall, comm: str) -> Event:
    """A slow call as evidence takes it."""
    call, direction = call_of(slow.name)
    record = slow.record
    fields: list[tuple[str, str | int | float]] = [
        ("lib", "cuda"),
        ("call", call.name),
        ("seconds", record.duration / 1e9),
        ("tid", record.tid),
        ("failed", int(record.failed)),
    ]
    if comm:
        fields.insert(0, ("comm", comm))
    if direction:
        fields.append(("direction", direction))
    if record.size_bytes:
        fields.append(("bytes", record.size_bytes))
    return Event(SLOW, slow.time_ms, slow.process, tuple(fields), weight=1)
