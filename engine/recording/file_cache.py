"""Hourly files of events: those read last are kept within a bound."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.dataset import MemoryDataset
from engine.recording.hourly import read_events

if TYPE_CHECKING:
    from collections.abc import Callable

CACHE_BYTES = 1 << 30


class FileCache:
    """Reads files once while they fit; the one used longest ago goes first."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, str], tuple[MemoryDataset, int]] = OrderedDict()
        self._bytes = 0

    def events(self, path: str) -> MemoryDataset:
        """An events file. Raises DataError."""
        return self._get(
            (path, ""),
            lambda: MemoryDataset(
                (), recorded_events=tuple(read_events(path)) if Path(path).exists() else ()
            ),
        )

    def _get(self, key: tuple[str, str], read: Callable[[], MemoryDataset]) -> MemoryDataset:
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key][0]
        found = read()
        size = _bytes(found)
        self._held[key] = (found, size)
        self._bytes += size
        while self._bytes > self._max_bytes and len(self._held) > 1:
            _, (_, dropped) = self._held.popitem(last=False)
            self._bytes -= dropped
        return found


def _bytes(dataset: MemoryDataset) -> int:
    """An estimate: 16 for a sample, 500 for a label set and its arrays, 200 for an event."""
    both = (*dataset.series, *dataset.derived)
    samples = sum(one.values.size for one in both)
    return 16 * samples + 500 * len(both) + 200 * len(dataset.recorded_events)
