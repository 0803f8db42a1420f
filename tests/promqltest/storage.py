"""Series in memory, as a load command leaves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.matching import Selection
from engine.series import STALE_NAN, Series

from .notation import NativeHistogram, Stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.promql.ast import Matcher

    from .script import Load

NEEDS_HISTOGRAMS = "needs native histograms"
NEEDS_START_TIMES = "needs start timestamps"


@dataclass
class MemoryStorage:
    """A Queryable. `touched` collects why a query could not be answered in full."""

    floats: dict[Labels, dict[int, float]] = field(default_factory=dict)
    histograms: dict[Labels, set[int]] = field(default_factory=dict)
    start_times: set[Labels] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    _built: list[Series] | None = None

    def load(self, command: Load) -> None:
        """Add samples; the first is at time 0."""
        self._built = None
        for series in command.series:
            if series.start_timestamps:
                self.start_times.add(series.labels)
                continue
            if command.nhcb:
                self._note_nhcb(series.labels, len(series.items), command.step_ms)
            for number, item in enumerate(series.items):
                time = number * command.step_ms
                if item is None:
                    continue
                if isinstance(item, NativeHistogram):
                    self.histograms.setdefault(series.labels, set()).add(time)
                    continue
                value = STALE_NAN if isinstance(item, Stale) else item
                self.floats.setdefault(series.labels, {})[time] = value

    def _note_nhcb(self, labels: Labels, count: int, step_ms: int) -> None:
        name = labels.name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        native = labels.without("le", METRIC_NAME).merged({METRIC_NAME: name})
        self.histograms.setdefault(native, set()).update(range(0, count * step_ms, step_ms))

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """As engine.series.Queryable."""
        selection = Selection(matchers)
        for labels, native in self.histograms.items():
            if selection.accepts(labels) and any(start_ms <= time <= end_ms for time in native):
                self.touched.add(NEEDS_HISTOGRAMS)
        found = []
        for series in self._series():
            if not selection.accepts(series.labels):
                continue
            if series.labels in self.start_times:
                self.touched.add(NEEDS_START_TIMES)
            lo, hi = np.searchsorted(series.timestamps_ms, (start_ms, end_ms + 1))
            if lo < hi:
                times, values = series.timestamps_ms[lo:hi], series.values[lo:hi]
                found.append(Series(series.labels, times, values))
        return found

    def _series(self) -> list[Series]:
        if self._built is None:
            shared: dict[tuple[int, ...], np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {}
            self._built = []
            for labels in sorted(self.floats):
                samples = sorted(self.floats[labels].items())
                key = tuple(time for time, _ in samples)
                stamps = shared.setdefault(key, np.array(key, dtype=np.int64))
                values = np.array([value for _, value in samples], dtype=np.float64)
                self._built.append(Series(labels, stamps, values))
        return self._built
