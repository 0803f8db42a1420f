"""A kernel map whose values only grow, read by what they grew."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.bpf.maps import Map

_IDLE_DRAINS = 3


class Growing:
    """Pairs of u64 that grow. No count is lost between reading and resetting, as nothing is reset.

    A key that has been still for three drains is taken out, to make room.
    """

    def __init__(self, values: Map) -> None:
        self._map = values
        self._seen: dict[bytes, tuple[int, int, int]] = {}

    def drain(self) -> Iterator[tuple[bytes, int, int]]:
        """(key, growth of the first number, of the second) of what grew since the last call."""
        seen: dict[bytes, tuple[int, int, int]] = {}
        for key, value in self._map.items():
            first, second, still = self._seen.get(key, (0, 0, 0))
            now = struct.unpack("=QQ", value)
            still = still + 1 if now[0] == first else 0
            if still >= _IDLE_DRAINS:
                last = self._map.take(key)
                now = (first, second) if last is None else struct.unpack("=QQ", last)
            else:
                seen[key] = (now[0], now[1], still)
            if now[0] != first:
                yield key, now[0] - first, now[1] - second
        self._seen = seen
