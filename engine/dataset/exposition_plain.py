"""Lines of text formats at their plainest: a series that was read before, a value and a time.

Nearly all lines of a file are of this kind. They are split at their last two spaces and their
numbers are read together; whatever then is not certain is left to the reader of single lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.times import EARLIEST_MS, LATEST_MS
from engine.dataset.values import overflows

if TYPE_CHECKING:
    from engine.series import Float64Array, Int64Array


class PlainLines:
    """Consecutive plain lines that wait for being read together."""

    def __init__(self, *, seconds: bool) -> None:
        """`seconds`: the unit of times, else milliseconds."""
        self._seconds = seconds
        self._known: dict[bytes, int] = {}
        self._clear()

    def learn(self, line: str, series: str, rest: str, number: int) -> None:
        """A line was read as this series, by its number, with this value and time."""
        key = line.rstrip("\r\n").removesuffix(f" {rest}")
        if key == series:
            self._known[key.encode()] = number

    def take(self, line: bytes) -> bool:
        """Keep a line if it is plain."""
        parts = line.rsplit(b" ", 2)
        number = self._known.get(parts[0])
        if number is None or len(parts) != 3:
            return False
        self.lines.append(line)
        self._numbers.append(number)
        self._values.append(parts[1])
        self._times.append(parts[2])
        return True

    def taken(self) -> tuple[list[bytes], tuple[list[int], list[int], list[float]] | None]:
        """The lines since the last call, and their series, times and values if that is certain."""
        lines, numbers = self.lines, self._numbers
        values, times = self._read_values(), self._read_times()
        self._clear()
        if values is None or times is None:
            return lines, None
        return lines, (numbers, times.tolist(), values)

    def _clear(self) -> None:
        self.lines: list[bytes] = []
        self._numbers: list[int] = []
        self._values: list[bytes] = []
        self._times: list[bytes] = []

    def _read_values(self) -> list[float] | None:
        values = _floats(self._values)
        if values is None:
            return None
        for row in np.flatnonzero(np.isinf(np.array(values))).tolist():
            if overflows(self._values[row].decode(errors="replace"), values[row]):
                return None
        return values

    def _read_times(self) -> Int64Array | None:
        numbers = _floats(self._times)
        if numbers is None:
            return None
        times: Float64Array = np.array(numbers, dtype=np.float64)
        if self._seconds:
            times = times * 1000
        sound = (times >= EARLIEST_MS) & (times <= LATEST_MS)
        whole = np.rint(times)
        if not sound.all() or not (self._seconds or (whole == times).all()):
            return None
        found: Int64Array = whole.astype(np.int64)
        return found


def _floats(texts: list[bytes]) -> list[float] | None:
    # Python reads 1_000 as a number, the formats do not.
    if b"_" in b" ".join(texts):
        return None
    try:
        return list(map(float, texts))
    except ValueError:
        return None
