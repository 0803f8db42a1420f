"""Structures of program.bpf.c: totals, open calls, slow calls."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_FILE = struct.Struct("=II")
_CALL = struct.Struct("=QII")
_TOTAL = struct.Struct("=QQQ")
_SLOW = struct.Struct("=QQIIIIq")
# A kprobe does not know the descriptor: DRIVER(n) of the program.
_DRIVER = 0x80000000


@dataclass(frozen=True, slots=True)
class File:
    """A descriptor of a process, or `function` n of the driver where no descriptor is known."""

    pid: int
    fd: int

    @property
    def function(self) -> int | None:
        """Which of the probed functions; None for a descriptor."""
        return self.fd - _DRIVER if self.fd >= _DRIVER else None

    def encode(self) -> bytes:
        """The map's key."""
        return _FILE.pack(self.pid, self.fd)

    @classmethod
    def decode(cls, key: bytes) -> File:
        """Of the map's key."""
        return cls(*_FILE.unpack(key))


@dataclass(frozen=True, slots=True)
class Total:
    """Since the first call; failures are negative results."""

    calls: int = 0
    failures: int = 0
    nanoseconds: int = 0

    def since(self, before: Total) -> Total:
        """The growth."""
        return Total(
            self.calls - before.calls,
            self.failures - before.failures,
            self.nanoseconds - before.nanoseconds,
        )


def decode_total(value: bytes) -> Total:
    """`struct total`."""
    return Total(*_TOTAL.unpack(value))


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has not returned: whose, since when (CLOCK_MONOTONIC)."""

    pid: int
    tid: int
    since_ns: int


def decode_open(key: bytes, value: bytes) -> OpenCall:
    """A key is the thread (low half) and its process."""
    (identity,) = struct.unpack("=Q", key)
    since_ns, _, _ = _CALL.unpack(value)
    return OpenCall(identity >> 32, identity & 0xFFFFFFFF, since_ns)


@dataclass(frozen=True, slots=True)
class SlowCall:
    """A call that took long: it returned at `monotonic_ns` with `result`."""

    monotonic_ns: int
    nanoseconds: int
    file: File
    tid: int
    command: int
    result: int


def decode_slow(record: bytes) -> SlowCall:
    """A ring may pad a record: the rest is cut."""
    at, took, pid, tid, fd, command, result = _SLOW.unpack_from(record)
    return SlowCall(at, took, File(pid, fd), tid, command, result)
