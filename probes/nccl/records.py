"""The maps and records of records.h, decoded. Pure.

Times are nanoseconds of CLOCK_MONOTONIC. `owner` is when a process made its first call, which names
it in every map: a pid that is used again is another owner.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple, TypeAlias

UNKNOWN_RANK = -1
NONBLOCKING = 1


class Clock(enum.IntEnum):
    """What runs in an interval."""

    WAITING = 0
    EXPOSED = 1
    KERNELS = 2


class Kind(enum.IntEnum):
    """What an event tells."""

    INIT = 1
    ASYNC_ERROR = 2
    ABORT = 3
    DESTROY = 4
    FINALIZE = 5
    REVOKE = 6
    FAILED_CALL = 7


class TotalKey(NamedTuple):
    """Of calls and bytes; `communicator` is its identity, 0 where that is not known."""

    owner: int
    communicator: int
    operation: int
    size_class: int


class Total(NamedTuple):
    """Of calls."""

    calls: int
    bytes: int


class ErrorKey(NamedTuple):
    """Of failed calls."""

    owner: int
    call: int
    result: int


class Place(NamedTuple):
    """Where a communicator lies in its process."""

    owner: int
    address: int


class Communicator(NamedTuple):
    """`since`: when it was begun; `ready`: 0 while a non-blocking initialisation goes on."""

    id: int
    since: int
    rank: int
    nranks: int
    children: int
    result: int
    function: int
    ready: int


class ClockKey(NamedTuple):
    """Of an open interval, or of how many run."""

    owner: int
    kind: int


class Interval(NamedTuple):
    """An open interval."""

    since: int
    operation: int


class SpentKey(NamedTuple):
    """Of closed intervals."""

    owner: int
    kind: int
    operation: int


class Spent(NamedTuple):
    """Of closed intervals."""

    ns: int
    intervals: int


class ProcessRecord(NamedTuple):
    """`kernels`: events of a profiler plugin; the operations are the last ones.

    `synchronised`: calls by the place of their function in functions.WAITS.
    """

    born: int
    hits: int
    enqueued: int
    kernels: int
    plugin_calls: int
    asked: int
    synchronised: tuple[int, ...]
    tgid: int
    operation: int
    kernel_operation: int
    zero: int

    @classmethod
    def decode(cls, value: bytes) -> ProcessRecord:
        """From the map's bytes."""
        fields = _PROCESS.unpack(value)
        born, hits, enqueued, kernels, plugin_calls, asked, *rest = fields
        waits, (tgid, op, kernel_op, zero) = tuple(rest[:8]), rest[8:]
        head = (born, hits, enqueued, kernels, plugin_calls, asked)
        return cls(*head, waits, tgid, op, kernel_op, zero)


class ThreadRecord(NamedTuple):
    """What a thread has open; a frame of 0: nothing."""

    owner: int
    frame: int
    since: int
    communicator: int
    out: int
    id: int
    rank: int
    nranks: int
    function: int
    groups: int
    pending: int
    wait_operation: int
    wait_frame: int
    wait_since: int
    enqueued: int
    synchronised: int
    abandoned: int
    group_frame: int
    event_frame: int
    event_out: int
    event_operation: int
    event_kernel: int


class Pending(NamedTuple):
    """An initialisation that waits for the end of its group."""

    since: int
    out: int
    id: int
    rank: int
    nranks: int
    function: int
    zero: int


class EventRecord(NamedTuple):
    """One event of the ring; `thread` is pid << 32 | tid, `since` when an initialisation began."""

    time: int
    owner: int
    thread: int
    communicator: int
    id: int
    since: int
    rank: int
    nranks: int
    kind: int
    function: int
    result: int
    flags: int

    @property
    def pid(self) -> int:
        """The process."""
        return self.thread >> 32

    @property
    def tid(self) -> int:
        """The thread."""
        return self.thread & 0xFFFFFFFF


class CallRecord(NamedTuple):
    """One call, where the sequence of calls is asked for."""

    time: int
    communicator: int
    thread: int
    elements: int
    operation: int
    dtype: int


_PROCESS = struct.Struct("=14QIIII")
Record: TypeAlias = type[tuple[int, ...]]
_LAYOUTS: dict[Record, struct.Struct] = {
    TotalKey: struct.Struct("=QQII"),
    Total: struct.Struct("=QQ"),
    ErrorKey: struct.Struct("=QII"),
    Place: struct.Struct("=QQ"),
    Communicator: struct.Struct("=QQiiIIII"),
    ClockKey: struct.Struct("=QQ"),
    Interval: struct.Struct("=QQ"),
    SpentKey: struct.Struct("=QII"),
    Spent: struct.Struct("=QQ"),
    ThreadRecord: struct.Struct("=6QiiIIII8QII"),
    Pending: struct.Struct("=QQQiiII"),
    EventRecord: struct.Struct("=6QiiIIII"),
    CallRecord: struct.Struct("=QQQQII"),
}


def layout(kind: Record) -> struct.Struct:
    """How a record lies in memory."""
    return _LAYOUTS[kind]
