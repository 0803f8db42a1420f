"""BPF maps from user space: bytes in, bytes out."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from probes.bpf import batch, syscall

if TYPE_CHECKING:
    from collections.abc import Iterator


class Seen(NamedTuple):
    """How many entries there were, and when (monotonic seconds)."""

    entries: int
    at: float


class Map:
    """One map. Keys and values are raw bytes in the machine's own order.

    `seen`: what the last walk over all entries found.
    """

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd
        self.info = syscall.map_info(fd)
        padded = (self.info.value_bytes + 7) // 8 * 8
        per_cpu = padded * syscall.possible_cpus()
        self._batches = True
        self.seen: Seen | None = None
        self._value_bytes = per_cpu if self.info.per_cpu else self.info.value_bytes

    def lookup(self, key: bytes) -> bytes | None:
        """The value; for a per-CPU map all values in a row, each padded to 8 bytes."""
        return syscall.map_lookup(self.fd, key, self._value_bytes)

    def take(self, key: bytes) -> bytes | None:
        """Remove a key and return what it held last."""
        return syscall.map_take(self.fd, key, self._value_bytes)

    def update(self, key: bytes, value: bytes) -> None:
        """Set a key. OSError when the map is full (E2BIG)."""
        syscall.map_update(self.fd, key, value)

    def delete(self, key: bytes) -> bool:
        """Remove a key; False when it was absent."""
        return syscall.map_delete(self.fd, key)

    def keys(self) -> list[bytes]:
        """All keys now."""
        return syscall.map_keys(self.fd, self.info.key_bytes, self.info.max_entries * 2)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All (key, value) now; keys removed meanwhile are left out."""
        found = self._batched()
        if found is None:
            pairs = ((key, self.lookup(key)) for key in self.keys())
            found = [(key, value) for key, value in pairs if value is not None]
        self.seen = Seen(len(found), time.monotonic())
        yield from found

    def _batched(self) -> list[tuple[bytes, bytes]] | None:
        """None where the kernel reads this kind of map one by one only."""
        if not self.info.fills or not self._batches:
            return None
        try:
            expected = self.seen.entries if self.seen else 0
            parts = batch.batches(self.fd, self.info.key_bytes, self._value_bytes, expected)
            return [item for part in parts for item in part]
        except OSError:
            self._batches = False
            return None

    def sums(self) -> list[int]:
        """A per-CPU array of u64 counters: each counter summed over the CPUs."""
        return [
            sum_of_cpus(self.lookup(struct.pack("=I", index)) or b"")
            for index in range(self.info.max_entries)
        ]


def sum_of_cpus(values: bytes) -> int:
    """Sum of u64 values in a row, one per possible CPU."""
    return sum(struct.unpack(f"={len(values) // 8}Q", values))
