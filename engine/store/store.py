"""The live window: what rules and the API read, bounded in time, series and events."""

from __future__ import annotations

import bisect
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

import numpy as np

from engine.matching import Selection, matcher_key
from engine.series import Series, Table, stale_mask
from engine.store.block import Block

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.flush import Flush, TaskEvent
    from engine.labels import Labels
    from engine.series import BoolArray, Float64Array, Int64Array
    from rules.promql.ast import Matcher

HOUR_MS = 3_600_000
_NEVER = np.iinfo(np.int64).min
_CACHED_SELECTIONS = 512


class Store:
    """A window of samples and events. One writer and any number of readers.

    `window_ms`: at least so much is kept, counted back from the newest sample. `max_series` and
    `max_events` bound memory. What is refused is counted in `dropped_total` by reason:
    `out_of_order` (a time <= the newest of its series), `too_old` (before the window),
    `series_limit` (a new series over the bound), `evicted_series` (series that had ended, given
    up to make room), `event_limit`.
    """

    def __init__(
        self,
        window_ms: int = 2 * HOUR_MS,
        max_series: int = 100_000,
        max_events: int = 50_000,
    ) -> None:
        self.window_ms = window_ms
        self.max_series = max_series
        self.max_events = max_events
        self.dropped_total: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._blocks: list[Block] = []
        self._ids: dict[Labels, int] = {}
        self._labels: list[Labels | None] = []
        self._newest: Int64Array = np.full(64, _NEVER, dtype=np.int64)
        self._ended: BoolArray = np.zeros(64, dtype=np.bool_)
        self._blocks_of: Counter[int] = Counter()
        self._unused: list[int] = []
        self._by_name: dict[str, set[int]] = {}
        self._selections: dict[object, tuple[Int64Array, tuple[Labels, ...]]] = {}
        # The labels of each selection, also while `_selections` has forgotten the ids.
        self._selected: dict[object, tuple[Labels, ...]] = {}
        # A flush's labels and their ids: the next flush nearly always has the same.
        self._flushed: tuple[tuple[Labels, ...], Int64Array] = ((), np.empty(0, dtype=np.int64))
        self._newest_ms = _NEVER
        self._events: deque[TaskEvent] = deque()
        self._events_by_task: dict[str, deque[TaskEvent]] = {}

    @property
    def series_count(self) -> int:
        """Series that have a sample in the window."""
        with self._lock:
            return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Memory held by samples (labels and events not counted)."""
        with self._lock:
            return sum(block.nbytes for block in self._blocks)

    def append(self, flush: Flush) -> None:
        """Take a flush in."""
        with self._lock:
            self._write(flush.timestamp_ms, flush.labels, flush.values)
            self._write_events(flush.events, flush.timestamp_ms)

    def append_samples(
        self, timestamp_ms: int, labels: Sequence[Labels], values: Float64Array
    ) -> None:
        """Take in what a rule recorded at a time: float64[n] for n label sets."""
        with self._lock:
            self._write(timestamp_ms, labels, values)

    def append_events(self, events: Iterable[TaskEvent]) -> None:
        """Take in events of a recording, at start."""
        with self._lock:
            ordered = sorted(events, key=lambda event: event.flush_ms)
            if ordered:
                self._write_events(ordered, ordered[-1].flush_ms)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`. Series sampled together share one timestamps array."""
        return _series(self.table(matchers, start_ms, end_ms))

    def table(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Table:
        """See `engine.series.Tabular`."""
        with self._lock:
            ids, labels = self._matching(matchers)
            parts = [
                block.read(start_ms, end_ms, ids, len(self._labels))
                for block in self._blocks
                if block.last_ms >= start_ms and block.first_ms <= end_ms
            ]
        if not parts:
            shape = (len(labels), 0)
            none = np.empty(0, dtype=np.int64)
            return Table(labels, none, np.empty(shape), np.empty(shape, dtype=np.bool_))
        times = np.concatenate([part[0] for part in parts])
        values = np.ascontiguousarray(np.concatenate([part[1] for part in parts]).T)
        present = np.concatenate([part[2] for part in parts])
        if present.all():
            return Table(labels, times, values)
        return Table(labels, times, values, np.ascontiguousarray(present.T))

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """See `engine.flush.EventSource`."""
        with self._lock:
            events = list(self._events_by_task.get(task_id, ()))
        found = [
            event
            for event in events
            if start_ms <= event.time_ms <= end_ms and event.flush_ms <= visible_at_ms
        ]
        return sorted(found, key=lambda event: event.time_ms)

    def _write(self, time_ms: int, labels: Sequence[Labels], values: Float64Array) -> None:
        if self._newest_ms != _NEVER and time_ms < self._newest_ms - self.window_ms:
            self.dropped_total["too_old"] += len(labels)
            return
        known, known_ids = self._flushed
        if known and labels == known and (self._newest[known_ids] < time_ms).all():
            self._newest[known_ids] = time_ms
            self._put(time_ms, known_ids, np.asarray(values, dtype=np.float64))
            return
        ids: list[int] = []
        kept: list[int] = []
        for position, own_labels in enumerate(labels):
            own = self._ids.get(own_labels)
            if own is None:
                own = self._admit(own_labels)
            if own is None:
                self.dropped_total["series_limit"] += 1
            elif time_ms <= self._newest[own]:
                self.dropped_total["out_of_order"] += 1
            else:
                # Not ended while this write lasts, or making room could evict it half-written.
                self._newest[own], self._ended[own] = time_ms, False
                ids.append(own)
                kept.append(position)
        if not ids:
            return
        numbers = np.array(ids, dtype=np.int64)
        if isinstance(labels, tuple) and len(ids) == len(labels):
            self._flushed = (labels, numbers)
        self._put(time_ms, numbers, np.asarray(values, dtype=np.float64)[kept])

    def _put(self, time_ms: int, ids: Int64Array, values: Float64Array) -> None:
        self._ended[ids] = stale_mask(values)
        for own in self._block_for(time_ms, len(ids)).put(time_ms, ids, values):
            self._blocks_of[own] += 1
        self._newest_ms = max(self._newest_ms, time_ms)
        self._expire()

    def _block_for(self, time_ms: int, columns: int) -> Block:
        if not self._blocks or (self._blocks[-1].full and time_ms > self._blocks[-1].last_ms):
            if self._blocks:
                self._blocks[-1].seal()
            self._blocks.append(Block(columns))
            return self._blocks[-1]
        if time_ms >= self._blocks[-1].first_ms:
            return self._blocks[-1]
        firsts = [block.first_ms for block in self._blocks]
        return self._blocks[max(0, bisect.bisect_right(firsts, time_ms) - 1)]

    def _admit(self, labels: Labels) -> int | None:
        if len(self._ids) >= self.max_series and not self._evict_ended():
            return None
        if self._unused:
            own = self._unused.pop()
            self._labels[own] = labels
        else:
            own = len(self._labels)
            self._labels.append(labels)
            if own == self._newest.size:
                self._newest = np.concatenate([self._newest, np.full(own, _NEVER)])
                self._ended = np.concatenate([self._ended, np.zeros(own, dtype=np.bool_)])
        self._newest[own], self._ended[own] = _NEVER, False
        self._ids[labels] = own
        self._by_name.setdefault(labels.name, set()).add(own)
        self._selections.clear()
        return own

    def _evict_ended(self) -> bool:
        """Give up the series that ended longest ago; False if none has ended."""
        ended = np.flatnonzero(self._ended)
        if not ended.size:
            return False
        own = int(ended[np.argmin(self._newest[ended])])
        for block in self._blocks:
            block.forget(own)
        self._forget(own)
        self.dropped_total["evicted_series"] += 1
        return True

    def _forget(self, own: int) -> None:
        labels = self._labels[own]
        if labels is None:
            return
        self._flushed = ((), self._flushed[1])
        self._labels[own] = None
        self._ended[own] = False
        del self._ids[labels], self._blocks_of[own]
        self._by_name[labels.name].discard(own)
        if not self._by_name[labels.name]:
            del self._by_name[labels.name]
        self._unused.append(own)
        self._selections.clear()

    def _expire(self) -> None:
        horizon = self._newest_ms - self.window_ms
        while len(self._blocks) > 1 and self._blocks[0].last_ms < horizon:
            for own in self._blocks.pop(0).series_ids:
                self._blocks_of[own] -= 1
                if self._blocks_of[own] <= 0:
                    self._forget(own)

    def _matching(self, matchers: Sequence[Matcher]) -> tuple[Int64Array, tuple[Labels, ...]]:
        """The ids of the series that match, and their labels, sorted."""
        key = matcher_key(matchers)
        found = self._selections.get(key)
        if found is None:
            selection = Selection(matchers)
            named: Iterable[int] = (
                self._by_name.get(selection.name, ()) if selection.name else self._ids.values()
            )
            rows = [
                (labels, own)
                for own in named
                if (labels := self._labels[own]) is not None and selection.accepts(labels)
            ]
            rows.sort(key=lambda row: row[0].pairs)
            ids = np.array([own for _, own in rows], dtype=np.int64)
            every = tuple(own for own, _ in rows)
            # A series that came or went elsewhere leaves this answer the same object.
            before = self._selected.get(key)
            found = (ids, before if before is not None and before == every else every)
            if len(self._selected) >= _CACHED_SELECTIONS:
                self._selections.clear()
                self._selected.clear()
            self._selections[key], self._selected[key] = found, found[1]
        return found

    def _write_events(self, events: Sequence[TaskEvent], flush_ms: int) -> None:
        for event in events:
            if len(self._events) >= self.max_events:
                self._drop_oldest_event()
                self.dropped_total["event_limit"] += 1
            self._events.append(event)
            self._events_by_task.setdefault(event.task_id, deque()).append(event)
        while self._events and self._events[0].flush_ms < flush_ms - self.window_ms:
            self._drop_oldest_event()

    def _drop_oldest_event(self) -> None:
        oldest = self._events.popleft()
        own = self._events_by_task[oldest.task_id]
        own.popleft()
        if not own:
            del self._events_by_task[oldest.task_id]


def _series(table: Table) -> list[Series]:
    """Rows of a matrix as series; equal presence means the same timestamps object."""
    if not table.timestamps_ms.size:
        return []
    if table.present is None:
        return [
            Series(own, table.timestamps_ms, values)
            for own, values in zip(table.labels, table.values, strict=True)
        ]
    shared: dict[bytes, Int64Array] = {}
    found = []
    complete: list[bool] = np.logical_and.reduce(table.present, axis=1).tolist()
    for row, own in enumerate(table.labels):
        if complete[row]:
            found.append(Series(own, table.timestamps_ms, table.values[row]))
            continue
        mask = table.present[row]
        if not mask.any():
            continue
        key = mask.tobytes()
        if key not in shared:
            shared[key] = table.timestamps_ms[mask]
        found.append(Series(own, shared[key], table.values[row][mask]))
    return found
