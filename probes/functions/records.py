"""The records of probes/bpf/words/calls.h, decoded. Pure."""

from __future__ import annotations

import operator
import struct

from rules.slotted import dataclass

DEPTH = 4
BUCKETS = 32
_KEY = struct.Struct("=QII")
_TOTAL = struct.Struct(f"={8 + BUCKETS}Q")
_THREAD_KEY = struct.Struct("=QQ")
_THREAD = struct.Struct(f"={3 + 6 * DEPTH}Q")
_SLOW = struct.Struct("=9Q")


@dataclass(frozen=True, slots=True)
class Total:
    """`struct call_total`: sums of a process in a slot. `sum` in nanoseconds, or of a value."""

    hits: int = 0
    calls: int = 0
    timed: int = 0
    errors: int = 0
    abandoned: int = 0
    sum: int = 0
    bytes_total: int = 0
    last: int = 0
    buckets: tuple[int, ...] = (0,) * BUCKETS

    @classmethod
    def decode(cls, value: bytes) -> Total:
        """From the map's bytes."""
        hits, calls, timed, errors, abandoned, sum_, size, last, *buckets = _TOTAL.unpack(value)
        return cls(hits, calls, timed, errors, abandoned, sum_, size, last, tuple(buckets))

    def since(self, before: Total) -> Total:
        """What was added after `before`; `last` is the latest. All sums only grow."""
        return Total(
            self.hits - before.hits,
            self.calls - before.calls,
            self.timed - before.timed,
            self.errors - before.errors,
            self.abandoned - before.abandoned,
            self.sum - before.sum,
            self.bytes_total - before.bytes_total,
            self.last,
            tuple(map(operator.sub, self.buckets, before.buckets)),
        )


@dataclass(frozen=True, slots=True)
class TotalKey:
    """`struct call_key`. `born`: CLOCK_MONOTONIC nanoseconds of the process's first count."""

    tgid: int
    born: int
    slot: int

    @classmethod
    def decode(cls, key: bytes) -> TotalKey:
        """From the map's bytes."""
        born, tgid, slot = _KEY.unpack(key)
        return cls(tgid, born, slot)


@dataclass(frozen=True, slots=True)
class Thread:
    """`struct call_thread`: a thread in a slot.

    `open_since`: start of its latest entry, 0 when that has returned. `entries` and `abandoned` are
    not in a total yet. `frames`: calls that have not returned, or were left by an exception.
    """

    pid: int
    tid: int
    slot: int
    open_since: int
    entries: int
    abandoned: int
    frames: int

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Thread:
        """From the map's bytes."""
        thread, slot = _THREAD_KEY.unpack(key)
        open_since, entries, abandoned, *rest = _THREAD.unpack(value)
        frames = sum(start != 0 for start in rest[::6])
        return cls(thread >> 32, thread & 0xFFFFFFFF, slot, open_since, entries, abandoned, frames)

    def key(self) -> bytes:
        """For the map."""
        return _THREAD_KEY.pack(self.pid << 32 | self.tid, self.slot)

    def closed(self) -> bytes:
        """The map's value without its frames, which become abandoned."""
        rest = [0] * (6 * DEPTH)
        return _THREAD.pack(0, self.entries, self.abandoned + self.frames, *rest)


@dataclass(frozen=True, slots=True)
class Slow:
    """`struct call_slow`: times in nanoseconds of CLOCK_MONOTONIC."""

    end: int
    duration: int
    pid: int
    tid: int
    born: int
    slot: int
    failed: bool
    size_bytes: int
    a: int
    b: int

    @classmethod
    def decode(cls, record: bytes) -> Slow:
        """From the ring's bytes; a perf buffer pads them."""
        end, duration, thread, born, slot, failed, *rest = _SLOW.unpack_from(record)
        pid, tid = thread >> 32, thread & 0xFFFFFFFF
        return cls(end, duration, pid, tid, born, slot, bool(failed), *rest)
