"""Series in memory, as load commands leave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.dataset import cut
from engine.labels import METRIC_NAME, Labels
from engine.matching import Selection
from engine.series import STALE_NAN, Series

from .histograms import classic_text
from .notation import NativeHistogram, ScriptError, Stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Int64Array
    from rules.promql.ast import Matcher

    from .script import Load

HISTOGRAMS = "native histograms"
START_TIMES = "start timestamps"
_SUFFIXES = ("_bucket", "_count", "_sum")


@dataclass(frozen=True)
class LoadedSample:
    """A sample: a float (perhaps a staleness marker) or a histogram; `start_ms` 0: unknown."""

    value: float
    histogram: str | None = None
    start_ms: int = 0


@dataclass
class MemoryStorage:
    """A Queryable. `met`: which kinds of samples beside plain floats were selected."""

    samples: dict[Labels, dict[int, LoadedSample]] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    _built: list[Series] | None = None

    def load(self, command: Load) -> None:
        """Add samples; the first is at time 0. Raises ScriptError."""
        self._built = None
        for series in command.series:
            own = self.samples.setdefault(series.labels, {})
            for number, (item, start) in enumerate(zip(series.items, series.starts, strict=True)):
                time = number * command.step_ms
                start_ms = 0 if start is None else time + start
                match item:
                    case None:
                        continue
                    case NativeHistogram(text=text):
                        own[time] = LoadedSample(np.nan, text, start_ms)
                    case Stale():
                        own[time] = LoadedSample(float(STALE_NAN), None, start_ms)
                    case _:
                        own[time] = LoadedSample(item, None, start_ms)
        if command.nhcb:
            self._load_nhcb(command)

    def _load_nhcb(self, command: Load) -> None:
        """Each classic histogram once more as a native one with custom buckets."""
        found: dict[tuple[Labels, int], dict[str, float]] = {}
        for series in command.series:
            name = series.labels.name
            suffix = next((one for one in _SUFFIXES if name.endswith(one)), None)
            part = suffix
            if suffix == "_bucket":
                try:
                    part = repr(float(series.labels.get("le")))
                except ValueError:
                    continue
            if suffix is None or part is None:
                continue
            base = series.labels.without("le").merged({METRIC_NAME: name.removesuffix(suffix)})
            for number, item in enumerate(series.items):
                if isinstance(item, float):
                    found.setdefault((base, number * command.step_ms), {})[part] = item
        for (labels, time), parts in found.items():
            total, count = parts.pop("_sum", 0.0), parts.pop("_count", None)
            buckets = {float(bound): value for bound, value in parts.items()}
            own = self.samples.setdefault(labels, {})
            if time in own and own[time].histogram is None:
                raise ScriptError(f"{labels} has a float where its histogram goes", command.line)
            own[time] = LoadedSample(np.nan, classic_text(buckets, count, total))

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """As engine.series.Queryable."""
        selection = Selection(matchers)
        accepted = [series for series in self.series if selection.accepts(series.labels)]
        found = cut(accepted, start_ms, end_ms)
        for series in found:
            if series.histograms is not None:
                self.met.add(HISTOGRAMS)
            if series.starts_ms is not None:
                self.met.add(START_TIMES)
        return found

    @property
    def series(self) -> list[Series]:
        """All series, sorted; those with the same times share one array."""
        if self._built is None:
            shared: dict[tuple[int, ...], Int64Array] = {}
            self._built = []
            for labels in sorted(self.samples):
                own = sorted(self.samples[labels].items())
                if not own:
                    continue
                key = tuple(time for time, _ in own)
                stamps = shared.setdefault(key, np.array(key, dtype=np.int64))
                self._built.append(_series(labels, stamps, [sample for _, sample in own]))
        return self._built


def _series(labels: Labels, stamps: Int64Array, samples: list[LoadedSample]) -> Series:
    histograms = starts = None
    if any(sample.histogram is not None for sample in samples):
        histograms = np.array([sample.histogram for sample in samples], dtype=np.object_)
    if any(sample.start_ms for sample in samples):
        starts = np.array([sample.start_ms for sample in samples], dtype=np.int64)
    values = np.array([sample.value for sample in samples], dtype=np.float64)
    return Series(labels, stamps, values, histograms, starts)
