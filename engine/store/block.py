"""A block of the window: a matrix with a row for each time and a column for each series.

Nearly every flush carries the same series, so a matrix with a presence mask costs 9 bytes a
sample and nothing for its time, and all series of a block share their timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import BoolArray, Float64Array, Int64Array

ROWS = 64
_FREE = -1


class Block:
    """Times in increasing order; not thread-safe, the store's lock guards it."""

    __slots__ = ("_columns", "_ids", "_last", "_present", "_times", "_values", "rows")

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self._columns: dict[int, int] = {}
        # The ids written last and their columns: the next flush nearly always has the same.
        self._last: tuple[Int64Array | None, Int64Array] = (None, np.empty(0, dtype=np.int64))
        self._times: Int64Array = np.empty(ROWS, dtype=np.int64)
        self._values: Float64Array = np.empty((ROWS, columns), dtype=np.float64)
        self._present: BoolArray = np.zeros((ROWS, columns), dtype=np.bool_)
        self._ids: Int64Array = np.full(columns, _FREE, dtype=np.int64)

    @property
    def full(self) -> bool:
        """No row is left for a later time."""
        return self.rows >= ROWS

    @property
    def first_ms(self) -> int:
        """The time of the first row."""
        return int(self._times[0])

    @property
    def last_ms(self) -> int:
        """The time of the last row."""
        return int(self._times[self.rows - 1])

    @property
    def series_ids(self) -> Sequence[int]:
        """The series that have a column."""
        return tuple(self._columns)

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self._values.nbytes + self._present.nbytes + self._times.nbytes + self._ids.nbytes

    def put(self, time_ms: int, ids: Int64Array, values: Float64Array) -> list[int]:
        """Set `values[i]` of series `ids[i]` at a time; returns the series new to this block."""
        fresh: list[int] = []
        last_ids, columns = self._last
        if ids is not last_ids:
            numbers = ids.tolist()
            fresh = [own for own in numbers if own not in self._columns]
            if fresh:
                self._widen(fresh)
            columns = np.array([self._columns[own] for own in numbers], dtype=np.int64)
            self._last = (ids, columns)
        row = self._row(time_ms)
        self._values[row, columns] = values
        self._present[row, columns] = True
        return fresh

    def read(
        self, start_ms: int, end_ms: int, ids: Int64Array, id_bound: int
    ) -> tuple[Int64Array, Float64Array, BoolArray]:
        """Times[R], values[R, S] and presence[R, S] of some series in start <= t <= end."""
        times = self._times[: self.rows]
        low = int(np.searchsorted(times, start_ms, side="left"))
        high = int(np.searchsorted(times, end_ms, side="right"))
        # One slot more than there are ids takes the writes of free columns (_FREE is -1).
        where = np.full(id_bound + 1, _FREE, dtype=np.int64)
        where[self._ids] = np.arange(self._ids.size)
        where[_FREE] = _FREE
        columns = where[ids]
        values = self._values[low:high][:, columns]
        present = self._present[low:high][:, columns] & (columns != _FREE)
        return times[low:high].copy(), values, present

    def forget(self, series_id: int) -> None:
        """Drop a series' column."""
        column = self._columns.pop(series_id, None)
        self._last = (None, self._last[1])
        if column is not None:
            self._present[:, column] = False
            self._ids[column] = _FREE

    def seal(self) -> None:
        """Give back the columns that were reserved and not used."""
        used = max(self._columns.values(), default=-1) + 1
        self._values = self._values[:, :used].copy()
        self._present = self._present[:, :used].copy()
        self._ids = self._ids[:used].copy()

    def _row(self, time_ms: int) -> int:
        row = int(np.searchsorted(self._times[: self.rows], time_ms))
        if row < self.rows and self._times[row] == time_ms:
            return row
        if self.rows == self._times.size:
            self._lengthen()
        # Only a late time (an output with a query offset) lands before the last row.
        self._times[row + 1 : self.rows + 1] = self._times[row : self.rows]
        self._values[row + 1 : self.rows + 1] = self._values[row : self.rows]
        self._present[row + 1 : self.rows + 1] = self._present[row : self.rows]
        self._times[row] = time_ms
        self._present[row] = False
        self.rows += 1
        return row

    def _lengthen(self) -> None:
        more = ROWS // 4
        self._times = np.concatenate([self._times, np.empty(more, dtype=np.int64)])
        width = self._values.shape[1]
        self._values = np.vstack([self._values, np.empty((more, width))])
        self._present = np.vstack([self._present, np.zeros((more, width), dtype=np.bool_)])

    def _widen(self, fresh: Sequence[int]) -> None:
        used = max(self._columns.values(), default=-1) + 1
        needed = used + len(fresh)
        if needed > self._ids.size:
            grown = max(needed, self._ids.size + self._ids.size // 4)
            more, rows = grown - self._ids.size, self._times.size
            self._ids = np.concatenate([self._ids, np.full(more, _FREE, dtype=np.int64)])
            self._values = np.hstack([self._values, np.empty((rows, more))])
            self._present = np.hstack([self._present, np.zeros((rows, more), dtype=np.bool_)])
        for column, own in enumerate(fresh, start=used):
            self._columns[own] = column
            self._ids[column] = own
