"""Evidence: what an alert's task did that explains the alert.

Five entries at most, from the events and the per-rank series of the alert's `task_id` over
[active_at - 5 m, now]: processes that were killed, connections that retransmitted, slow calls, and,
for alerts about waiting, how long each rank waited. Never labels, never part of the fingerprint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.alert import AlertState
from engine.series import stale_mask
from rules.model import AlertingRule
from rules.promql.ast import Matcher
from rules.promql.walk import selectors
from rules.slotted import dataclass, field
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from engine.alerts.alert import Alert, EvidenceEntry
    from engine.flush import EventSource, TaskEvent
    from engine.labels import Labels
    from engine.readings import FieldValue
    from engine.series import Queryable
    from rules.model import Rule

MAX_ENTRIES = 5
BEFORE_MS = 300_000
RETRANSMIT = "tcp_retransmit"
CONNECTION_FIELDS = ("comm", "src", "sport", "dst", "dport")
CALL_FIELDS = ("comm", "lib", "call", "op")
ENDS = frozenset({"process_killed", "oom_kill"})
END_FIELDS = ("comm", "signal", "sender_comm")
WAIT_RATIO = "comm_wait_ratio"


def about_waits(rule: Rule) -> bool:
    """Whether an alert of this rule is explained by how long each rank waited.

    True for tier 2 and for any rule whose expression reads a communication wait metric.
    """
    if not isinstance(rule, AlertingRule):
        return False
    if rule.labels.get("tier") == "2":
        return True
    names = (selector.name or "" for selector in selectors(rule.expression.tree))
    return any("comm_wait" in name for name in names)


class EvidenceCollector:
    """Evidence of one rule's alerts, kept up from one evaluation to the next.

    What an alert's task did is added up as it becomes visible, so that a live window that has
    forgotten the beginning of a long incident gives what a replay of the whole recording gives.
    """

    def __init__(self, rule: Rule) -> None:
        self._waits = about_waits(rule)
        self._folds: dict[Labels, _Fold] = {}

    def collect(
        self, active: Iterable[Alert], queryable: Queryable, events: EventSource
    ) -> dict[Labels, tuple[EvidenceEntry, ...]]:
        """The evidence of each firing alert as it stands at its last evaluation.

        `active`: all pending and firing alerts of the rule; what is known of others is forgotten.
        """
        folds: dict[Labels, _Fold] = {}
        found = {}
        for alert in active:
            task_id, now_ms = alert.labels.get("task_id"), alert.last_evaluation_ms
            if not task_id or now_ms is None:
                continue
            fold = self._folds.get(alert.labels)
            if fold is None or fold.active_at_ms != alert.active_at_ms:
                fold = _Fold(alert.active_at_ms)
            fold.add(events, task_id, now_ms)
            folds[alert.labels] = fold
            if alert.state is not AlertState.PENDING:
                found[alert.labels] = self._entries(fold, task_id, now_ms, queryable)
        self._folds = folds
        return found

    def _entries(
        self, fold: _Fold, task_id: str, now_ms: int, queryable: Queryable
    ) -> tuple[EvidenceEntry, ...]:
        entries = _ends(fold.ends) + _connections(fold.connections) + _slow_calls(fold.calls)
        if self._waits and len(entries) < MAX_ENTRIES:
            start_ms = max(fold.active_at_ms, now_ms - BEFORE_MS)
            entries += _waits(task_id, start_ms, now_ms, queryable)
        return tuple(entries[:MAX_ENTRIES])


@dataclass(slots=True)
class _Tally:
    """Events with the same rank, pid and fields."""

    event: TaskEvent
    count: int = 0
    seconds: float = 0.0
    first_ms: int = 0
    last_ms: int = 0


@dataclass(slots=True)
class _Fold:
    """What an alert's task has done since five minutes before it became active."""

    active_at_ms: int
    connections: dict[Hashable, _Tally] = field(default_factory=dict)
    calls: dict[Hashable, _Tally] = field(default_factory=dict)
    ends: dict[Hashable, _Tally] = field(default_factory=dict)
    _seen_ms: int | None = None

    def add(self, events: EventSource, task_id: str, now_ms: int) -> None:
        """Take in what has become visible by now."""
        start_ms = self.active_at_ms - BEFORE_MS
        for event in events.events(task_id, start_ms, now_ms, visible_at_ms=now_ms):
            # A flush can hold events of the moments after the time that it is stamped with.
            if self._seen_ms is not None and max(event.time_ms, event.flush_ms) <= self._seen_ms:
                continue
            if event.kind == RETRANSMIT:
                _count(self.connections, event, CONNECTION_FIELDS)
            elif event.kind in ENDS:
                _count(self.ends, event, END_FIELDS)
            elif any(name == "seconds" for name, _ in event.fields):
                _count(self.calls, event, CALL_FIELDS)
        self._seen_ms = now_ms


def _count(tallies: dict[Hashable, _Tally], event: TaskEvent, names: Sequence[str]) -> None:
    """Add an event to the tally of its rank, pid and named fields."""
    fields = dict(event.fields)
    key = (event.kind, event.rank, event.pid, *(fields.get(name) for name in names))
    tally = tallies.setdefault(key, _Tally(event, first_ms=event.time_ms))
    tally.count += 1
    seconds = fields.get("seconds", 0.0)
    tally.seconds += seconds if isinstance(seconds, int | float) else 0.0
    tally.first_ms = min(tally.first_ms, event.time_ms)
    tally.last_ms = max(tally.last_ms, event.time_ms)


def _ends(found: dict[Hashable, _Tally]) -> list[EvidenceEntry]:
    """One entry per process that did not end by itself, the first first: others follow from it."""
    tallies = sorted(found.values(), key=lambda tally: (tally.first_ms, *_identity(tally, ())))
    return [
        _entry(tally, END_FIELDS, {"event": tally.event.kind}) for tally in tallies[:MAX_ENTRIES]
    ]


def _connections(found: dict[Hashable, _Tally]) -> list[EvidenceEntry]:
    """One entry per connection end, most retransmits first; one event is one retransmit."""
    tallies = sorted(
        found.values(), key=lambda tally: (-tally.count, *_identity(tally, CONNECTION_FIELDS))
    )
    return [
        _entry(tally, CONNECTION_FIELDS, {"retransmits": tally.count})
        for tally in tallies[:MAX_ENTRIES]
    ]


def _slow_calls(found: dict[Hashable, _Tally]) -> list[EvidenceEntry]:
    """One entry per kind of slow call and process, most time first."""
    tallies = sorted(
        found.values(), key=lambda tally: (-tally.seconds, *_identity(tally, CALL_FIELDS))
    )
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
