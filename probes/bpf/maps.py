"""BPF maps from user space: bytes in, bytes out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from probes.bpf import syscall

if TYPE_CHECKING:
    from collections.abc import Iterator


class Map:
    """One map. Keys and values are raw bytes in the machine's own order."""

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd
        self.info = syscall.map_info(fd)
        padded = (self.info.value_bytes + 7) // 8 * 8
        per_cpu = padded * syscall.possible_cpus()
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
        for key in self.keys():
            value = self.lookup(key)
            if value is not None:
                yield key, value

    def sums(self) -> list[int]:
        """A per-CPU array of u64 counters: each counter summed over the CPUs."""
        return [
            sum_of_cpus(self.lookup(struct.pack("=I", index)) or b"")
            for index in range(self.info.max_entries)
        ]


def sum_of_cpus(values: bytes) -> int:
    """Sum of u64 values in a row, one per possible CPU."""
    return sum(struct.unpack(f"={len(values) // 8}Q", values))
