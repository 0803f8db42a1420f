"""The bounded queue between probes and aggregation: never blocks, counts what it drops."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.readings import ProbeStatus, Produced, Reading


@dataclass(frozen=True, slots=True)
class FlushMark:
    """All readings for the flush at `timestamp_ms` are in front of this mark.

    `produced` were read before the probes were drained, so that consumed, read when the mark
    arrives, can only be equal or higher: a loss shows, a race does not.
    """

    timestamp_ms: int
    produced: tuple[Produced, ...] = ()
    statuses: tuple[ProbeStatus, ...] = ()


Item: TypeAlias = "tuple[str, Reading] | FlushMark"


# A taker that waits is woken for so many readings, though nobody has said that these are all.
WAKE = 256


class ReadingQueue:
    """At most `size` readings; a reading that finds it full is dropped and its weight counted.

    Who puts says `wake` when there is no more for now: a taker that were woken for each reading
    would pass the interpreter to and fro with whoever puts the next one.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[Item] = deque()
        self._dropped: dict[tuple[str, str], int] = {}
        self._readings = 0
        self._changed = threading.Condition()
        self._closed = False

    def put(self, probe: str, reading: Reading) -> bool:
        """Add a reading of a probe; False when it was dropped."""
        with self._changed:
            if self._readings >= self._size:
                stream = getattr(reading, "stream", "")
                key = (probe, stream)
                weight = max(1, getattr(reading, "weight", 0))
                self._dropped[key] = self._dropped.get(key, 0) + weight
                return False
            self._items.append((probe, reading))
            self._readings += 1
            if self._readings % WAKE == 0:
                self._changed.notify()
            return True

    def wake(self) -> None:
        """Let a taker that waits have what is there."""
        with self._changed:
            if self._items:
                self._changed.notify()

    def mark(self, mark: FlushMark) -> None:
        """Add a flush mark; marks are few and never dropped."""
        with self._changed:
            self._items.append(mark)
            self._changed.notify()

    def take(self, most: int, timeout_seconds: float) -> list[Item]:
        """Up to `most` items in order; where there are none, those of the next `wake` or mark.

        [] when the time-out has passed without any.
        """
        with self._changed:
            if not self._items and not self._closed:
                self._changed.wait(timeout_seconds)
            batch = [self._items.popleft() for _ in range(min(most, len(self._items)))]
            self._readings -= sum(1 for item in batch if not isinstance(item, FlushMark))
            return batch

    def close(self) -> None:
        """Wake whoever waits; what is inside can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether it is closed and empty."""
        with self._changed:
            return self._closed and not self._items

    def depth(self) -> int:
        """Readings that wait."""
        with self._changed:
            return self._readings

    def dropped(self) -> dict[tuple[str, str], int]:
        """Weight dropped so far, by (probe, stream)."""
        with self._changed:
            return dict(self._dropped)
