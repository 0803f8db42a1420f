"""From what a user's functions were called to the user's metrics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Count, Event, Level
from probes.functions.histogram import Buckets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.readings import Pairs, Process, Reading
    from probes.custom.settings import MetricConfig
    from probes.custom.slots import Slot
    from probes.functions.records import Total
    from probes.functions.totals import SlowCall

DURATIONS = Buckets.of_durations()
VALUES = Buckets.of_values()
HITS = "custom_calls_total"
SLOW = "custom_slow_call"


def own_labels(slot: Slot) -> Pairs:
    """Those of the probe's own account."""
    return (("probe", slot.probe.name),)


def counts(slot: Slot, process: Process | None, total: Total) -> Iterator[Reading]:
    """What a slot's metrics grew by; `custom_calls_total` carries the weight of its hits."""
    if slot.argument is None:
        calls = float(total.calls)
        yield Count(HITS, process, calls, own_labels(slot), weight=total.hits)
    for metric in _of(slot):
        if metric.take == "count" and total.calls:
            yield Count(metric.name, process, float(total.calls), slot.labels)
        elif metric.take == "latency":
            yield from DURATIONS.counts(metric.name, process, total, slot.labels)
        elif metric.take == "histogram":
            yield from VALUES.counts(metric.name, process, total, slot.labels)
        elif metric.take == "bytes" and total.sum > 0:
            yield Count(metric.name, process, float(total.sum), slot.labels)


def levels(slot: Slot, process: Process, last: int) -> Iterator[Level]:
    """The last value of an argument."""
    for metric in _of(slot):
        if metric.take == "value":
            yield Level(metric.name, process, slot.value(last), slot.labels)


def first(slots: Sequence[Slot]) -> tuple[tuple[str, Pairs], ...]:
    """The counters that begin with a 0 once a process maps the library."""
    started: list[tuple[str, Pairs]] = []
    for slot in slots:
        for metric in _of(slot):
            if metric.take == "latency":
                started += DURATIONS.names(metric.name, slot.labels)
            elif metric.take == "histogram":
                started += VALUES.names(metric.name, slot.labels)
            elif metric.take != "value":
                started.append((metric.name, slot.labels))
    return tuple(started)


def slow_event(slot: Slot, slow: SlowCall, comm: str) -> Event:
    """A slow call as evidence takes it."""
    fields: list[tuple[str, str | int | float]] = [
        ("comm", comm),
        ("call", slot.probe.name),
        ("seconds", slow.record.duration / 1e9),
        ("tid", slow.record.tid),
        *slot.labels,
    ]
    return Event(SLOW, slow.time_ms, slow.process, tuple(fields), weight=1)


def _of(slot: Slot) -> Iterator[MetricConfig]:
    for metric in slot.probe.metrics:
        wanted = None if metric.argument is None else (metric.argument, metric.type)
        if wanted == slot.argument:
            yield metric
