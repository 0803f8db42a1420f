"""What follows from labels alone, remembered from one evaluation to the next.

A live window hands out the same tuple of labels as long as it holds the same series. What groups
they fall into, which rows match which, and how they are called without their names is then worked
out at the first tick and looked up at all later ones, by the tuple's identity.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from engine.labels import Labels

Found = TypeVar("Found")
LabelSets: TypeAlias = "tuple[Labels, ...]"

# What is remembered has a number or a pointer or two for each row that it was made from.
MOST_ROWS = 500_000
MOST_ENTRIES = 2_000


class Remembered:
    """Results by what they were made from, the longest unused forgotten first. Thread-safe.

    The tuples are held, so that no identity is used twice while it is a key.
    """

    def __init__(self, most_rows: int = MOST_ROWS, most_entries: int = MOST_ENTRIES) -> None:
        self._most_rows, self._most_entries = most_rows, most_entries
        self._held: OrderedDict[Hashable, tuple[tuple[LabelSets, ...], object]] = OrderedDict()
        self._rows = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(
        self, labels: tuple[LabelSets, ...], question: Hashable, make: Callable[[], Found]
    ) -> Found:
        """What `make()` gives for these labels and this question."""
        key = (*map(id, labels), question)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return cast("Found", found[1])
        made = make()
        with self._lock:
            if key not in self._held:
                self._held[key] = (labels, made)
                self._rows += sum(map(len, labels))
            while self._rows > self._most_rows or len(self._held) > self._most_entries:
                _, (gone, _) = self._held.popitem(last=False)
                self._rows -= sum(map(len, gone))
        return made


REMEMBERED = Remembered()
