"""Folds per-process counts and levels into one series per (task, rank, metric, labels).

Counters only grow, also when a process ends. A counter's first stored sample is a 0, so that
`rate` sees its first burst: what was counted in that very interval is stored with the next flush.
A level that no process reported in an interval gets a staleness marker, as a scrape would give it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from engine.labels import METRIC_NAME, Labels
from engine.series import STALE_NAN
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.readings import Count, Level, Pairs

Group: TypeAlias = "tuple[str, str]"
"""(task_id, rank)."""


@dataclass(slots=True)
class _Counter:
    labels: Labels
    total: float = 0.0
    # Counted but not stored yet, since the 0 sample comes first.
    held: float = 0.0
    started: bool = False


@dataclass(slots=True)
class _Gauge:
    labels: Labels
    value: float | None = None
    shown: bool = False


@dataclass(slots=True)
class Fold:
    """The running totals. `base` are labels that every series carries (cluster, node)."""

    base: Labels
    max_series: int = 100_000
    refused: int = 0
    _counters: dict[tuple[Group, str, Pairs], _Counter] = field(default_factory=dict)
    _gauges: dict[tuple[Group, str, Pairs], _Gauge] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def start(self, group: Group, metrics: Iterable[tuple[str, Pairs]]) -> None:
        """Make counters known, so that they begin with a 0."""
        for metric, labels in metrics:
            self._counter(group, metric, labels)

    def count(self, group: Group, reading: Count) -> None:
        """Add to a counter. A negative delta would mean a broken probe and is ignored."""
        counter = self._counter(group, reading.metric, reading.labels)
        if counter is not None and reading.delta > 0:
            counter.held += reading.delta

    def level(self, group: Group, reading: Level) -> None:
        """Set a gauge for this interval, folded with what other processes of the rank said."""
        key = (group, reading.metric, reading.labels)
        gauge = self._gauges.get(key)
        if gauge is None:
            if self._full():
                return
            gauge = self._gauges[key] = _Gauge(self._labels(*key))
        if gauge.value is None:
            gauge.value = reading.value
        elif reading.fold == "sum":
            gauge.value += reading.value
        elif reading.fold == "min":
            gauge.value = min(gauge.value, reading.value)
        else:
            gauge.value = max(gauge.value, reading.value)

    def end(self, task_id: str) -> None:
        """The task's last process is gone: its series end after what is still held."""
        self._ended.add(task_id)

    def revive(self, task_id: str) -> None:
        """A new process of the task appeared before its series ended."""
        self._ended.discard(task_id)

    def flush(self) -> Iterator[tuple[Labels, float]]:
        """The samples of this interval, and the state moves on to the next."""
        owed = {
            task_id
            for ((task_id, _), _, _), counter in self._counters.items()
            if counter.held > 0 or not counter.started
        }
        ending = self._ended - owed
        yield from self._flush_counters(ending)
        yield from self._flush_gauges()
        self._ended -= ending

    def _flush_counters(self, ending: set[str]) -> Iterator[tuple[Labels, float]]:
        for key, counter in list(self._counters.items()):
            if key[0][0] in ending:
                del self._counters[key]
                yield counter.labels, float(STALE_NAN)
                continue
            if counter.started:
                counter.total += counter.held
                counter.held = 0.0
            counter.started = True
            yield counter.labels, counter.total

    def _flush_gauges(self) -> Iterator[tuple[Labels, float]]:
        for key, gauge in list(self._gauges.items()):
            if gauge.value is not None:
                yield gauge.labels, gauge.value
                gauge.value, gauge.shown = None, True
            else:
                del self._gauges[key]
                if gauge.shown:
                    yield gauge.labels, float(STALE_NAN)

    def _counter(self, group: Group, metric: str, labels: Pairs) -> _Counter | None:
        key = (group, metric, labels)
        counter = self._counters.get(key)
        if counter is None and not self._full():
            counter = self._counters[key] = _Counter(self._labels(*key))
        return counter

    def _full(self) -> bool:
        if len(self._counters) + len(self._gauges) < self.max_series:
            return False
        self.refused += 1
        return True

    def _labels(self, group: Group, metric: str, labels: Pairs) -> Labels:
        own = {**dict(labels), METRIC_NAME: metric, "task_id": group[0], "rank": group[1]}
        return self.base.merged(own)
