"""What the rules of one scenario read and write: its input series and their own output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.dataset import MemoryDataset, union
from engine.rulegroup.overlay import Overlay
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.labels import Labels
    from engine.ruletest.model import InputSeries, Scenario
    from engine.series import Int64Array
    from rules.promql.ast import Matcher


class ScenarioStorage:
    """A Queryable.

    Unlike a recording, it shows the input series of a name that a rule records as well: both are
    there, and of two samples at one time the input's counts, as in Prometheus' storage.
    """

    def __init__(self, scenario: Scenario, last_ms: int) -> None:
        """Input is visible up to `last_ms`: what would be scraped later does not exist yet."""
        self._input = MemoryDataset(tuple(_input_series(scenario, last_ms)))
        self._output = Overlay(MemoryDataset(()), (), scenario.start_ms)
        self._by_labels = {series.labels: series for series in self._input.series}

    @property
    def series_count(self) -> int:
        """Input series that have a sample."""
        return len(self._input.series)

    def append(self, output: Iterable[Series], offset_ms: int) -> None:
        """What a rule wrote; its samples are stamped `offset_ms` before its evaluations.

        A sample that the series' input has overtaken by then is dropped, as out of order.
        """
        self._output.append(
            kept for series in output if len((kept := self._in_order(series, offset_ms)).values)
        )

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        given = self._input.select(matchers, start_ms, end_ms)
        written = self._output.select(matchers, start_ms, end_ms)
        if not written or not given:
            return given or written
        return list(union([*given, *written]))

    def _in_order(self, series: Series, offset_ms: int) -> Series:
        given = self._by_labels.get(series.labels)
        if given is None:
            return series
        stamps = series.timestamps_ms
        newest = np.searchsorted(given.timestamps_ms, stamps + offset_ms, side="right")
        before = np.searchsorted(given.timestamps_ms, stamps, side="left")
        return series.picked(newest == before)


def _input_series(scenario: Scenario, last_ms: int) -> list[Series]:
    """Sorted by labels; a series that is given twice is what it is given as last."""
    visible = max(0, (last_ms - scenario.start_ms) // scenario.interval_ms + 1)
    longest = max((len(one.sequence.values) for one in scenario.series), default=0)
    steps = np.arange(min(longest, visible), dtype=np.int64) * scenario.interval_ms
    steps += scenario.start_ms
    # Series of one length share their timestamps.
    shared: dict[int, Int64Array] = {}
    last: dict[Labels, Series] = {}
    for one in scenario.series:
        present = one.sequence.present[:visible]
        texts = None
        if one.sequence.histograms:
            texts = np.array(one.sequence.histograms, dtype=np.object_)[:visible]
        stamps = shared.setdefault(len(present), steps[: len(present)])
        values = one.sequence.values[:visible]
        whole = Series(one.labels, stamps, values, texts, _starts(one, stamps))
        last[one.labels] = whole if present.all() and texts is None else whole.picked(present)
    return [series for _, series in sorted(last.items()) if len(series.values)]


def _starts(series: InputSeries, stamps_ms: Int64Array) -> Int64Array | None:
    """Since when each sample counts, unix milliseconds, 0 where unknown."""
    if not series.starts:
        return None
    pairs = zip(stamps_ms.tolist(), series.starts, strict=False)
    return np.array([0 if own is None else time + own for time, own in pairs], dtype=np.int64)
