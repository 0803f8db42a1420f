"""What the kernel keeps of a thread: `struct thread` and `struct collective` of program.bpf.c."""

from __future__ import annotations

import struct
from typing import TypeAlias

from rules.slotted import dataclass

# enum mark, and what steps_total may be counted from, the most certain first.
MARKER, DDP, OPTIMIZER = range(3)
MARKS = ("marker", "ddp", "optimizer")
# enum op; the last ones are free.
OPERATIONS = ("finalize_backward", "wait", "send", "recv", "monitored_barrier")
# enum group: what is put under one budget together.
GROUPS = ("reducer", "waits", "flights", "backward", "ranges", "nvtx", "markers", "collectives")
REDUCER, WAITS, FLIGHTS, BACKWARD, RANGES, NVTX, MARKERS, COLLECTIVES = GROUPS
_OPS = 8
_STEPS_FIELDS = 6
_RECORD = struct.Struct(f"={6 + _OPS + 5 + _STEPS_FIELDS * len(MARKS) + len(GROUPS)}Q")
_KEY = struct.Struct("=QQ")
_COLLECTIVE = struct.Struct("=QII")

Nanoseconds: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps that one kind of mark tells: `span_ns` and `wait_ns` are of the `timed` ones."""

    marks: int = 0
    timed: int = 0
    span_ns: Nanoseconds = 0
    wait_ns: Nanoseconds = 0

    def __add__(self, other: Steps) -> Steps:
        return Steps(
            self.marks + other.marks,
            self.timed + other.timed,
            self.span_ns + other.span_ns,
            self.wait_ns + other.wait_ns,
        )

    def __sub__(self, other: Steps) -> Steps:
        return Steps(
            self.marks - other.marks,
            self.timed - other.timed,
            self.span_ns - other.span_ns,
            self.wait_ns - other.wait_ns,
        )


NO_STEPS = (Steps(),) * len(MARKS)
NO_WAITS = (0,) * len(OPERATIONS)
NO_TRAPS = (0,) * len(GROUPS)


@dataclass(frozen=True, slots=True)
class ThreadState:
    """Counts, and times in nanoseconds of CLOCK_MONOTONIC.

    `op_ns`: closed waits, by place in OPERATIONS. `open_since`, `open_op`: the wait that has not
    returned; 0: none. `flight_ns`, `flight_since`: the same of Gloo's waits for data. `steps`: by
    place in MARKS. `traps`: by place in GROUPS, ranges of no interest and collectives included.
    """

    hits: int = 0
    abandoned: int = 0
    open_since: Nanoseconds = 0
    open_op: int = 0
    op_ns: tuple[Nanoseconds, ...] = NO_WAITS
    backwards: int = 0
    flight_ns: Nanoseconds = 0
    flight_since: Nanoseconds = 0
    steps: tuple[Steps, ...] = NO_STEPS
    traps: tuple[int, ...] = NO_TRAPS

    @classmethod
    def decode(cls, value: bytes) -> ThreadState:
        """From the map's bytes."""
        hits, abandoned, since, _sp, op, _waited, *rest = _RECORD.unpack(value)
        backwards, _backward_sp, _finalizing, flight, flying = rest[_OPS : _OPS + 5]
        steps = rest[_OPS + 5 :]
        return cls(
            hits=hits,
            abandoned=abandoned,
            open_since=since,
            open_op=op,
            op_ns=tuple(rest[: len(OPERATIONS)]),
            backwards=backwards,
            flight_ns=flight,
            flight_since=flying,
            steps=tuple(
                Steps(*steps[start : start + 4])
                for start in range(0, _STEPS_FIELDS * len(MARKS), _STEPS_FIELDS)
            ),
            traps=tuple(steps[_STEPS_FIELDS * len(MARKS) :]),
        )

    def waited(self, now: Nanoseconds, since: Nanoseconds = 0) -> tuple[Nanoseconds, ...]:
        """Nanoseconds waited until `now`, by operation, the open wait included.

        One that was open before `since` may have returned unseen, and is not.
        """
        if not self.open_since or self.open_since < since:
            return self.op_ns
        more = max(0, now - self.open_since)
        return tuple(
            closed + more * (place == self.open_op) for place, closed in enumerate(self.op_ns)
        )

    def flown(self, now: Nanoseconds, since: Nanoseconds = 0) -> Nanoseconds:
        """The same of its waits for data in Gloo."""
        began = self.flight_since
        return self.flight_ns + (max(0, now - began) if began and began >= since else 0)


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """`struct thread_key`. `born`: its process's first hit; 0: the kernel had no room for it."""

    pid: int
    tid: int
    born: Nanoseconds

    @classmethod
    def decode(cls, key: bytes) -> ThreadKey:
        """From the map's bytes."""
        thread, born = _KEY.unpack(key)
        return cls(thread >> 32, thread & 0xFFFFFFFF, born)

    def encode(self) -> bytes:
        """For the map."""
        return _KEY.pack(self.pid << 32 | self.tid, self.born)


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective was issued. `operation`: c10d's OpType."""

    time_ns: Nanoseconds
    pid: int
    operation: int

    @classmethod
    def decode(cls, record: bytes) -> Collective:
        """From a record of the ring."""
        return cls(*_COLLECTIVE.unpack_from(record))


# c10d::OpType (torch/csrc/distributed/c10d/Types.hpp) in its order, by torch.distributed's names.
_COLLECTIVES = (
    "broadcast",
    "all_reduce",
    "all_reduce_coalesced",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all_single",
    "all_to_all",
    "send",
    "recv",
    "recv_any_source",
    "barrier",
    "reduce_scatter_tensor",
    "coalesced",
    "all_reduce_sparse",
)


def operation_name(operation: int) -> str:
    """The label of a c10d::OpType."""
    return _COLLECTIVES[operation] if operation < len(_COLLECTIVES) else "other"
