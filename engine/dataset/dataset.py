"""What opened data is: series, events, and the times they span."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engine.dataset.errors import DataError
from engine.matching import Selection
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.flush import TaskEvent
    from engine.series import Int64Array
    from rules.promql.ast import Matcher


class Dataset(Protocol):
    """Recorded data: a Queryable and an EventSource with its extent.

    `start_ms` and `end_ms`: the first and last sample. `notices`: what the reader assumed or
    left out, one sentence each.
    """

    @property
    def start_ms(self) -> int:
        """The time of the first sample, unix milliseconds."""
        ...

    @property
    def end_ms(self) -> int:
        """The time of the last sample, unix milliseconds."""
        ...

    @property
    def series_count(self) -> int:
        """Series with at least one sample."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What a reader should be told."""
        ...

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        ...

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """See `engine.flush.EventSource`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MemoryDataset:
    """Series in memory, sorted by labels, each with at least one sample."""

    series: tuple[Series, ...]
    notices: tuple[str, ...] = ()
    recorded_events: tuple[TaskEvent, ...] = field(default=())

    @property
    def start_ms(self) -> int:
        """The time of the first sample, unix milliseconds."""
        return min((int(series.timestamps_ms[0]) for series in self.series), default=0)

    @property
    def end_ms(self) -> int:
        """The time of the last sample, unix milliseconds."""
        return max((int(series.timestamps_ms[-1]) for series in self.series), default=0)

    @property
    def series_count(self) -> int:
        """Series with at least one sample."""
        return len(self.series)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        selection = Selection(matchers)
        chosen = [series for series in self.series if selection.accepts(series.labels)]
        return cut(chosen, start_ms, end_ms)

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """See `engine.flush.EventSource`."""
        return [
            event
            for event in self.recorded_events
            if event.task_id == task_id
            and start_ms <= event.time_ms <= end_ms
            and event.flush_ms <= visible_at_ms
        ]


def cut(series: Sequence[Series], start_ms: int, end_ms: int) -> list[Series]:
    """Series cut to start <= t <= end, empty ones left out; shared timestamps stay shared."""
    shared: dict[int, tuple[int, int, Int64Array]] = {}
    found = []
    for one in series:
        times = one.timestamps_ms
        if id(times) not in shared:
            low = int(times.searchsorted(start_ms, side="left"))
            high = int(times.searchsorted(end_ms, side="right"))
            whole = low == 0 and high == times.size
            shared[id(times)] = (low, high, times if whole else times[low:high])
        low, high, window = shared[id(times)]
        if high > low:
            found.append(Series(one.labels, window, one.values[low:high]))
    return found


def merge(datasets: Sequence[MemoryDataset], place: str) -> MemoryDataset:
    """Several files as one. Raises DataError where two of them disagree about a sample."""
    from engine.dataset.assembly import Assembly

    if len(datasets) == 1:
        return datasets[0]
    assembly = Assembly()
    for dataset in datasets:
        for series in dataset.series:
            assembly.add_series(series.labels, series.timestamps_ms, series.values)
    found = assembly.build()
    if found.conflict is not None:
        labels, time_ms = found.conflict.labels, found.conflict.time_ms
        raise DataError(
            place,
            f"two files give {labels} different values at {time_ms}",
            "remove one of the files, or add a label that tells them apart",
        )
    notices = tuple(dict.fromkeys(notice for one in datasets for notice in one.notices))
    events = [event for one in datasets for event in one.recorded_events]
    events.sort(key=lambda event: event.time_ms)
    return MemoryDataset(found.series, notices, tuple(events))
