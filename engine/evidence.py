"""Evidence: what an alert's task did that explains the alert.

Five entries at most, from the events and the per-rank series of the alert's `task_id` over
[active_at - 5 m, now]: connections that retransmitted, slow calls, and, for alerts about waiting,
how long each rank waited. Never labels, never part of the fingerprint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.series import stale_mask
from rules.model import AlertingRule
from rules.promql.ast import Matcher, VectorSelector, children
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from engine.alerts.alert import Alert, EvidenceEntry
    from engine.flush import EventSource, TaskEvent
    from engine.readings import FieldValue
    from engine.series import Queryable
    from rules.model import Rule
    from rules.promql.ast import Expr

MAX_ENTRIES = 5
BEFORE_MS = 300_000
RETRANSMIT = "tcp_retransmit"
CONNECTION_FIELDS = ("comm", "src", "sport", "dst", "dport")
CALL_FIELDS = ("comm", "lib", "call", "op")
WAIT_RATIO = "comm_wait_ratio"


def about_waits(rule: Rule) -> bool:
    """Whether an alert of this rule is explained by how long each rank waited.

    True for tier 2 and for any rule whose expression reads a communication wait metric.
    """
    if not isinstance(rule, AlertingRule):
        return False
    if rule.labels.get("tier") == "2":
        return True
    names = (selector.name or "" for selector in _selectors(rule.expression.tree))
    return any("comm_wait" in name for name in names)


def collect_evidence(
    alert: Alert, *, queryable: Queryable, events: EventSource, waits: bool
) -> tuple[EvidenceEntry, ...]:
    """The evidence as it stands at the alert's last evaluation.

    Live and replay give the same, since only what had been flushed by then is looked at.
    """
    task_id = alert.labels.get("task_id")
    now_ms = alert.last_evaluation_ms
    if not task_id or now_ms is None:
        return ()
    seen = events.events(task_id, alert.active_at_ms - BEFORE_MS, now_ms, visible_at_ms=now_ms)
    entries = _connections(event for event in seen if event.kind == RETRANSMIT)
    entries += _slow_calls(event for event in seen if event.kind != RETRANSMIT)
    if waits and len(entries) < MAX_ENTRIES:
        entries += _waits(task_id, max(alert.active_at_ms, now_ms - BEFORE_MS), now_ms, queryable)
    return tuple(entries[:MAX_ENTRIES])


@dataclass(slots=True)
class _Tally:
    """Events with the same rank, pid and fields."""

    event: TaskEvent
    count: int = 0
    seconds: float = 0.0
    first_ms: int = 0
    last_ms: int = 0


def _tally(events: Iterable[TaskEvent], names: Sequence[str]) -> list[_Tally]:
    """One per distinct rank, pid and named fields, in the order of the first event."""
    tallies: dict[Hashable, _Tally] = {}
    for event in events:
        fields = dict(event.fields)
        key = (event.kind, event.rank, event.pid, *(fields.get(name) for name in names))
        tally = tallies.setdefault(key, _Tally(event, first_ms=event.time_ms))
        tally.count += 1
        seconds = fields.get("seconds", 0.0)
        tally.seconds += seconds if isinstance(seconds, int | float) else 0.0
        tally.first_ms = min(tally.first_ms, event.time_ms)
        tally.last_ms = max(tally.last_ms, event.time_ms)
    return list(tallies.values())


def _connections(events: Iterable[TaskEvent]) -> list[EvidenceEntry]:
    """One entry per connection end, most retransmits first; one event is one retransmit."""
    tallies = _tally(events, CONNECTION_FIELDS)
    tallies.sort(key=lambda tally: (-tally.count, *_identity(tally, CONNECTION_FIELDS)))
    return [
        _entry(tally, CONNECTION_FIELDS, {"retransmits": tally.count})
        for tally in tallies[:MAX_ENTRIES]
    ]


def _slow_calls(events: Iterable[TaskEvent]) -> list[EvidenceEntry]:
    """One entry per kind of slow call and process, most time first."""
    tallies = _tally((event for event in events if "seconds" in dict(event.fields)), CALL_FIELDS)
    tallies.sort(key=lambda tally: (-tally.seconds, *_identity(tally, CALL_FIELDS)))
    return [
        _entry(tally, CALL_FIELDS, {"calls": tally.count, "seconds": round(tally.seconds, 6)})
        for tally in tallies[:MAX_ENTRIES]
    ]


def _identity(tally: _Tally, names: Sequence[str]) -> tuple[str, ...]:
    """What breaks a tie, so that equal counts come in the same order every time."""
    fields = dict(tally.event.fields)
    return (
        tally.event.rank,
        f"{tally.event.pid:010d}",
        *(str(fields.get(name, "")) for name in names),
    )


def _entry(tally: _Tally, names: Sequence[str], figures: dict[str, FieldValue]) -> EvidenceEntry:
    fields = dict(tally.event.fields)
    return {
        "rank": tally.event.rank,
        "pid": tally.event.pid,
        **{name: fields[name] for name in names if name in fields},
        **figures,
        "first": tally.first_ms / 1000,
        "last": tally.last_ms / 1000,
    }


def _waits(task_id: str, start_ms: int, end_ms: int, queryable: Queryable) -> list[EvidenceEntry]:
    """Per rank its mean share of time spent waiting in start <= t <= end, worst first.

    Only while the alert is active and not longer than five minutes, so that the figure is the
    incident's and a live window always holds all of it.
    """
    nowhere = Span(0, 0)
    matchers = (
        Matcher(nowhere, "__name__", "=", WAIT_RATIO),
        Matcher(nowhere, "task_id", "=", task_id),
    )
    entries: list[EvidenceEntry] = []
    for series in queryable.select(matchers, start_ms, end_ms):
        values = series.values[~stale_mask(series.values)]
        values = values[~np.isnan(values)]
        if len(values):
            ratio = round(float(np.mean(values)), 6)
            entries.append({"rank": series.labels.get("rank"), WAIT_RATIO: ratio})
    return sorted(entries, key=lambda entry: (-float(entry[WAIT_RATIO]), str(entry["rank"])))


def _selectors(expr: Expr) -> Iterator[VectorSelector]:
    if isinstance(expr, VectorSelector):
        yield expr
    for child in children(expr):
        yield from _selectors(child)
