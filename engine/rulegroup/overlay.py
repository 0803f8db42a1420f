"""Data with what the rules of a replay write laid over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.machine import ALERT_NAME, ALERTS, ALERTS_FOR_STATE
from engine.dataset.dataset import cut
from engine.matching import Selection, matcher_key
from engine.series import Series
from rules.model import AlertingRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.labels import Labels
    from engine.series import Float64Array, Int64Array, Queryable
    from rules.model import Rule
    from rules.promql.ast import Matcher

_NO_STAMPS: Int64Array = np.empty(0, dtype=np.int64)
_NO_VALUES: Float64Array = np.empty(0, dtype=np.float64)


class Overlay:
    """A Queryable over `base` that takes rule outputs and hides those recorded in `base`.

    A recording holds what its rules wrote live. From `start_ms` on the replay's own outputs take
    their place; what was recorded before stays visible, except `ALERTS`, whose state begins anew.
    """

    def __init__(self, base: Queryable, rules: Iterable[Rule], start_ms: int) -> None:
        self._base = base
        self._start_ms = start_ms
        self._recorded = set()
        self._alerts = set()
        for rule in rules:
            if isinstance(rule, AlertingRule):
                self._alerts.add(rule.name)
            else:
                self._recorded.add(rule.name)
        self._own: dict[Labels, _Column] = {}
        self._by_name: dict[str, list[Labels]] = {}
        self._fetched: dict[object, tuple[int, int, list[Series]]] = {}
        self._horizon_ms: int | None = None

    def fetch_until(self, end_ms: int | None) -> None:
        """Read `base` as far as this time at once where many small steps are to come."""
        self._fetched.clear()
        self._horizon_ms = end_ms

    def append_samples(
        self, timestamp_ms: int, labels: Sequence[Labels], values: Float64Array
    ) -> None:
        """Samples of one time."""
        stamps = np.full(1, timestamp_ms, dtype=np.int64)
        for index, own in enumerate(labels):
            self._column(own).extend(stamps, values[index : index + 1])

    def append(self, series: Iterable[Series]) -> None:
        """Samples of one rule over a stretch of time."""
        for own in series:
            self._column(own.labels).take(own)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`."""
        found = {series.labels: series for series in self._of_base(matchers, start_ms, end_ms)}
        selection = Selection(matchers)
        candidates = self._by_name.get(selection.name, ()) if selection.name else self._own
        for labels in candidates:
            if not selection.accepts(labels):
                continue
            own = self._own[labels].between(labels, start_ms, end_ms)
            if own is None:
                continue
            before = found.get(labels)
            found[labels] = own if before is None else _joined(before, own)
        return [found[labels] for labels in sorted(found)]

    def _column(self, labels: Labels) -> _Column:
        column = self._own.get(labels)
        if column is None:
            column = self._own[labels] = _Column()
            self._by_name.setdefault(labels.name, []).append(labels)
        return column

    def _of_base(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterable[Series]:
        for series in self._read(matchers, start_ms, end_ms):
            name = series.labels.name
            if name in self._recorded:
                kept = _cut(series, start_ms, self._start_ms - 1)
                if kept is not None:
                    yield kept
            elif (
                name not in {ALERTS, ALERTS_FOR_STATE}
                or series.labels.get(ALERT_NAME) not in self._alerts
            ):
                yield series

    def _read(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        if self._horizon_ms is None or end_ms > self._horizon_ms:
            return self._base.select(matchers, start_ms, end_ms)
        key = matcher_key(matchers)
        first, last, series = self._fetched.get(key, (0, -1, []))
        if not first <= start_ms <= end_ms <= last:
            first, last = start_ms, self._horizon_ms
            series = self._base.select(matchers, first, last)
            self._fetched[key] = (first, last, series)
        return cut(series, start_ms, end_ms)


class Remembered:
    """A Queryable over a stretch of time that asks `base` each question once.

    For many small pieces of few series, while `base` does not change.
    """

    def __init__(self, base: Queryable, start_ms: int, end_ms: int) -> None:
        self._base, self._start_ms, self._end_ms = base, start_ms, end_ms
        self._found: dict[object, list[Series]] = {}

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`; no sample outside of the stretch is found."""
        key = matcher_key(matchers)
        found = self._found.get(key)
        if found is None:
            found = self._base.select(matchers, self._start_ms, self._end_ms)
            self._found[key] = found
        return cut(found, start_ms, end_ms)


class _Column:
    """One series that grows, nearly always at its end, or comes as a whole and stays so."""

    __slots__ = ("_count", "_stamps", "_values", "_whole")

    def __init__(self) -> None:
        self._count = 0
        # What came in one piece is handed out as it came: others may share its timestamps.
        self._whole: Series | None = None
        self._stamps: Int64Array = _NO_STAMPS
        self._values: Float64Array = _NO_VALUES

    def take(self, series: Series) -> None:
        """Take in a stretch of a series."""
        if self._whole is None and not self._count:
            self._whole = series
        else:
            self.extend(series.timestamps_ms, series.values)

    def extend(self, stamps: Int64Array, values: Float64Array) -> None:
        """Take in samples; of two at one time the first stays, as in the store.

        Two rules can write one series in turns: each brings all of its times at once.
        """
        if self._whole is not None:
            self._stamps, self._values = self._whole.timestamps_ms, self._whole.values
            self._count, self._whole = len(self._stamps), None
        if self._count and len(stamps) and stamps[0] <= self._stamps[self._count - 1]:
            known = self._stamps[: self._count]
            fresh = ~np.isin(stamps, known)
            both = np.concatenate((known, stamps[fresh]))
            order = np.argsort(both, kind="stable")
            # New arrays: someone may still hold a view of the old ones.
            self._values = np.concatenate((self._values[: self._count], values[fresh]))[order]
            self._stamps, self._count = both[order], len(both)
            return
        end = self._count + len(stamps)
        if end > len(self._stamps):
            self._resize(max(end, 2 * self._count, 16))
        self._stamps[self._count : end] = stamps
        self._values[self._count : end] = values
        self._count = end

    def between(self, labels: Labels, start_ms: int, end_ms: int) -> Series | None:
        if self._whole is not None:
            return _cut(self._whole, start_ms, end_ms)
        stamps, values = self._stamps[: self._count], self._values[: self._count]
        return _cut(Series(labels, stamps, values), start_ms, end_ms)

    def _resize(self, size: int) -> None:
        stamps = np.empty(size, dtype=np.int64)
        values = np.empty(size, dtype=np.float64)
        stamps[: self._count] = self._stamps[: self._count]
        values[: self._count] = self._values[: self._count]
        self._stamps, self._values = stamps, values


def _cut(series: Series, start_ms: int, end_ms: int) -> Series | None:
    """The part with start <= t <= end; None if there is none."""
    stamps = series.timestamps_ms
    first = int(np.searchsorted(stamps, start_ms, side="left"))
    last = int(np.searchsorted(stamps, end_ms, side="right"))
    if first >= last:
        return None
    if first == 0 and last == len(stamps):
        return series
    return series.picked(slice(first, last))


def _joined(before: Series, after: Series) -> Series:
    """Recorded history followed by the replay's own samples."""
    kept = int(np.searchsorted(before.timestamps_ms, after.timestamps_ms[0], side="left"))
    return Series.joined((before.picked(slice(0, kept)), after))
