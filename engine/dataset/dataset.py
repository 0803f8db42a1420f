"""What opened data is: series, events, and the times they span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from engine.dataset.index import SeriesIndex
from engine.dataset.long_form import DERIVED
from engine.series import Series
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.flush import TaskEvent
    from engine.labels import Labels
    from engine.matching import Selection
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

    def with_derived(self) -> Dataset:
        """The same data with the recorded outputs of rules in it, as `query` shows it."""
        ...

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        ...

    def select_derived(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> list[Series]:
        """As `select`, of what rules recorded and of nothing else."""
        ...

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """See `engine.flush.EventSource`."""
        ...

    def all_events(self, start_ms: int, end_ms: int) -> list[TaskEvent]:
        """Events of every task with start <= time <= end, in no particular order."""
        ...


class Unread(Protocol):
    """Samples that nobody asks for and nobody has read; none of them is what rules recorded."""

    @property
    def start_ms(self) -> int:
        """The time of the first sample, unix milliseconds."""
        ...

    @property
    def end_ms(self) -> int:
        """The time of the last sample, unix milliseconds."""
        ...

    def labels(self) -> set[Labels]:
        """Whose they are. Raises DataError."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MemoryDataset:
    """Series in memory, sorted by labels, each with at least one sample.

    `derived` are what rules recorded, if the data say so: a replay records them anew, so they are
    seen only through `with_derived()`. `unread` are of metrics that were not asked for when the
    data were opened; they count for the extent of the data and are never selected.
    """

    series: tuple[Series, ...]
    notices: tuple[str, ...] = ()
    recorded_events: tuple[TaskEvent, ...] = ()
    derived: tuple[Series, ...] = ()
    unread: tuple[Unread, ...] = ()
    _index: SeriesIndex = field(init=False, default_factory=SeriesIndex, repr=False)
    _derived_index: SeriesIndex = field(init=False, default_factory=SeriesIndex, repr=False)
    _events: dict[str, list[TaskEvent]] = field(init=False, default_factory=dict, repr=False)

    def with_derived(self) -> MemoryDataset:
        """The same data with the recorded outputs of rules in it."""
        series = union([*self.series, *self.derived])
        return replace(self, series=series, derived=())

    @property
    def start_ms(self) -> int:
        """The time of the first sample, unix milliseconds."""
        firsts = [int(series.timestamps_ms[0]) for series in self.series]
        return min([*firsts, *(part.start_ms for part in self.unread)], default=0)

    @property
    def end_ms(self) -> int:
        """The time of the last sample, unix milliseconds."""
        lasts = [int(series.timestamps_ms[-1]) for series in self.series]
        return max([*lasts, *(part.end_ms for part in self.unread)], default=0)

    @property
    def series_count(self) -> int:
        """Series with at least one sample; reads the labels of what was left unread."""
        if not self.unread:
            return len(self.series)
        return len(
            {one.labels for one in self.series}.union(*(own.labels() for own in self.unread))
        )

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        return cut(self._index.matching(self.series, matchers), start_ms, end_ms)

    def select_derived(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> list[Series]:
        """As `select`, of what rules recorded and of nothing else."""
        return cut(self._derived_index.matching(self.derived, matchers), start_ms, end_ms)

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """See `engine.flush.EventSource`."""
        if self.recorded_events and not self._events:
            for event in self.recorded_events:
                self._events.setdefault(event.task_id, []).append(event)
        return [
            event
            for event in self._events.get(task_id, ())
            if start_ms <= event.time_ms <= end_ms and event.flush_ms <= visible_at_ms
        ]

    def all_events(self, start_ms: int, end_ms: int) -> list[TaskEvent]:
        """Events of every task with start <= time <= end, in no particular order."""
        return [one for one in self.recorded_events if start_ms <= one.time_ms <= end_ms]


def chosen(
    series: Sequence[Series], selection: Selection, start_ms: int, end_ms: int
) -> list[Series]:
    """The series that a selection accepts, cut to start <= t <= end."""
    return cut([one for one in series if selection.accepts(one.labels)], start_ms, end_ms)


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
        if window is times:
            found.append(one)
        elif high > low:
            found.append(one.picked(slice(low, high), window))
    return found


def split_derived(series: Sequence[Series]) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Plain series, and those that carry the flag of what rules recorded, less the flag."""
    plain = tuple(one for one in series if DERIVED not in one.labels)
    flagged = [
        one.relabelled(one.labels.without(DERIVED)) for one in series if DERIVED in one.labels
    ]
    return plain, tuple(sorted(flagged, key=lambda one: one.labels))


def union(series: Sequence[Series]) -> tuple[Series, ...]:
    """Parts of series joined, sorted by labels; where two have a sample at a time, the first's.

    Parts that share timestamps give wholes that share them.
    """
    parts: dict[Labels, list[Series]] = {}
    for one in series:
        parts.setdefault(one.labels, []).append(one)
    shared: dict[tuple[int, ...], tuple[Int64Array, Int64Array | None]] = {}
    found = []
    for labels in sorted(parts):
        own = parts[labels]
        if len(own) == 1:
            found.append(own[0])
            continue
        key = tuple(id(one.timestamps_ms) for one in own)
        if key not in shared:
            shared[key] = _joined_times([one.timestamps_ms for one in own])
        times, order = shared[key]
        found.append(Series.joined(own, order, times))
    return tuple(found)


def _joined_times(parts: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array | None]:
    times = np.concatenate(parts)
    if bool((times[1:] > times[:-1]).all()):
        return times, None
    # np.unique's first index of each time is the earliest part's.
    distinct, order = np.unique(times, return_index=True)
    return distinct, order


def merge(datasets: Sequence[MemoryDataset], path: str) -> MemoryDataset:
    """Several files of the folder `path` as one; where two disagree, the first counts."""
    from engine.dataset.assembly import Assembly

    if len(datasets) == 1:
        return datasets[0]
    assembly = Assembly()
    for dataset in datasets:
        for series in dataset.series:
            assembly.add_series(series)
        for series in dataset.derived:
            assembly.add_series(series.relabelled(series.labels.merged({DERIVED: "1"})))
    found = assembly.build()
    told = [notice for one in datasets for notice in one.notices]
    told += found.notices(lambda _: path)
    notices = tuple(dict.fromkeys(told))
    events = [event for one in datasets for event in one.recorded_events]
    events.sort(key=lambda event: event.time_ms)
    plain, derived = split_derived(found.series)
    unread = [part for one in datasets for part in one.unread]
    return MemoryDataset(plain, notices, tuple(events), derived, tuple(unread))
