"""What aggregation hands on every flush interval: samples that share one timestamp, and events.

The store, the recording and a replay all take flushes; nothing else enters them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.labels import Labels
    from engine.readings import FieldValue
    from engine.series import Float64Array


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event that has an owner, as evidence and the recording see it.

    `time_ms`: when it happened. `flush_ms`: the flush it came with; a rule evaluated at t sees
    events with flush_ms <= t and no others, live and in a replay alike. `fields` are JSON scalars
    (`comm`, `src`, `sport`, `dst`, `dport`, ...).
    """

    time_ms: int
    flush_ms: int
    kind: str
    node: str
    task_id: str
    rank: str
    pid: int
    fields: tuple[tuple[str, FieldValue], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Flush:
    """One flush: `values[i]` (float64[n], staleness markers included) belongs to `labels[i]`.

    `timestamp_ms` is a multiple of the flush interval. `labels` hold no duplicates.
    """

    timestamp_ms: int
    labels: tuple[Labels, ...]
    values: Float64Array
    events: tuple[TaskEvent, ...] = ()


class EventSource(Protocol):
    """Where evidence comes from: the live window or a recording."""

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """Events of a task with start <= time <= end and flush_ms <= visible_at, by time."""
        ...
