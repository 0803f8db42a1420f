"""The scores of an element's latest points, so that the recent past need not be folded again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.series import Float64Array, Int64Array

_LEAST = 16


class Trace:
    """Times, int64[N], increasing, each with the score that holds from then on; NaN: none."""

    __slots__ = ("_count", "_scores", "_times")

    def __init__(self) -> None:
        self._times: Int64Array = np.empty(0, dtype=np.int64)
        self._scores: Float64Array = np.empty(0)
        self._count = 0

    @property
    def last_ms(self) -> int:
        """The time of the last score; there is one."""
        return int(self._times[self._count - 1])

    @property
    def content(self) -> tuple[Int64Array, Float64Array]:
        """All times and scores."""
        return self._times[: self._count], self._scores[: self._count]

    def extend(self, times_ms: Int64Array, scores: Float64Array, keep_ms: int) -> None:
        """Add scores after all others. What only matters before `keep_ms` may be forgotten."""
        end = self._count + len(times_ms)
        if end > len(self._times):
            self._make_room(len(times_ms), keep_ms)
            end = self._count + len(times_ms)
        self._times[self._count : end] = times_ms
        self._scores[self._count : end] = scores
        self._count = end

    def append(self, time_ms: int, score: float, keep_ms: int) -> None:
        """As `extend`, of one score."""
        if self._count == len(self._times):
            self._make_room(1, keep_ms)
        self._times[self._count] = time_ms
        self._scores[self._count] = score
        self._count += 1

    def end(self, time_ms: int, keep_ms: int) -> None:
        """From a time on, not before the last score's, there is none."""
        if self._count and self._times[self._count - 1] == time_ms:
            self._scores[self._count - 1] = np.nan
            return
        self.extend(np.array([time_ms]), np.full(1, np.nan), keep_ms)

    def latest(self, time_ms: int) -> float:
        """The score of the last point at or before a time; NaN: none."""
        last = self._count - 1
        if last >= 0 and self._times[last] <= time_ms:
            return float(self._scores[last])
        return float(self.at(np.array([time_ms]))[0])

    def at(self, times_ms: Int64Array) -> Float64Array:
        """The score of the last point at or before each time, float64[T]."""
        known = self._times[: self._count]
        places = np.searchsorted(known, times_ms, side="right") - 1
        if not self._count:
            return np.full(len(times_ms), np.nan)
        return np.where(places >= 0, self._scores[places], np.nan)

    def copy(self) -> Trace:
        """One that goes on by itself."""
        other = Trace()
        other._times, other._scores = self._times.copy(), self._scores.copy()
        other._count = self._count
        return other

    def _make_room(self, more: int, keep_ms: int) -> None:
        """Forget what nobody can ask for; the point that holds at `keep_ms` stays."""
        known = self._times[: self._count]
        first = max(0, int(np.searchsorted(known, keep_ms, side="right")) - 1)
        kept = self._count - first
        size = max(_LEAST, kept + more, 2 * kept)
        times, scores = np.empty(size, dtype=np.int64), np.empty(size)
        times[:kept] = known[first:]
        scores[:kept] = self._scores[first : self._count]
        self._times, self._scores, self._count = times, scores, kept
