"""Hours of a recording put together: one array a series, read and joined once.

A rule asks for the same metric again and again, and several rules ask for it. The stretch of hours
asked for last is kept whole; the next stretch reads only the hours that are new in it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from engine.dataset.dataset import cut, union
from engine.dataset.index import SeriesIndex
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.dataset.dataset import MemoryDataset
    from engine.recording.reading import Part
    from engine.series import Series
    from rules.promql.ast import Matcher

JOINED_BYTES = 1 << 30


@dataclass(slots=True, eq=False)
class _Stretch:
    """Series of consecutive parts, first <= part < end."""

    first: int
    end: int
    series: tuple[Series, ...]
    index: SeriesIndex = field(default_factory=SeriesIndex)

    @property
    def nbytes(self) -> int:
        """Memory held by samples."""
        times = {id(one.timestamps_ms): one.timestamps_ms.nbytes for one in self.series}
        return sum(times.values()) + sum(one.values.nbytes for one in self.series)


class JoinedHours:
    """Joins what `read` finds in parts, by metric name; "" stands for all metrics."""

    def __init__(
        self,
        parts: Sequence[Part],
        read: Callable[[Sequence[Part], str], MemoryDataset],
        choose: Callable[[MemoryDataset], Sequence[Series]],
    ) -> None:
        """`choose`: which of a part's series are meant."""
        self._parts, self._read, self._choose = parts, read, choose
        self._stretches: OrderedDict[str, _Stretch] = OrderedDict()
        self._lock = threading.Lock()

    def select(
        self, name: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> list[Series]:
        """Series that match, cut to start <= t <= end."""
        wanted = [
            number
            for number, part in enumerate(self._parts)
            if part.start_ms <= end_ms and part.end_ms >= start_ms
        ]
        if not wanted:
            return []
        with self._lock:
            stretch = self._stretch(name, wanted[0], wanted[-1] + 1)
            found = stretch.index.matching(stretch.series, matchers)
        return cut(found, start_ms, end_ms)

    def _stretch(self, name: str, first: int, end: int) -> _Stretch:
        known = self._stretches.get(name)
        if known is not None and known.first <= first and end <= known.end:
            self._stretches.move_to_end(name)
            return known
        series: list[Series] = []
        before: Sequence[Series] = ()
        missing = range(first, end)
        if known is not None and known.first <= end and first <= known.end:
            if first > known.first:
                # Time went on: what lies before this stretch is let go.
                start_ms = min(part.start_ms for part in self._parts[first:end])
                series = cut(known.series, start_ms, 1 << 62)
            else:
                series = list(known.series)
                before = self._hours(name, range(first, known.first))
            missing = range(max(first, known.end), max(end, known.end))
            end = max(end, known.end)
        # In the order of the parts: where two have a sample at one time, the first's counts.
        found = _Stretch(first, end, union([*before, *series, *self._hours(name, missing)]))
        self._stretches[name] = found
        self._stretches.move_to_end(name)
        self._forget()
        return found

    def _hours(self, name: str, numbers: range) -> Sequence[Series]:
        parts = [self._parts[number] for number in numbers]
        return self._choose(self._read(parts, name)) if parts else ()

    def _forget(self) -> None:
        held = sum(stretch.nbytes for stretch in self._stretches.values())
        while held > JOINED_BYTES and len(self._stretches) > 1:
            _, gone = self._stretches.popitem(last=False)
            held -= gone.nbytes
