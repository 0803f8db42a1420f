"""The calls of each process in their order, for whoever looks for the period of a step.

Off by default (`sequence: true` switches it on): each call is then a record of 40 bytes. A reader
in the same agent asks `sequences()`; it is the probe's own, refilled twice a second:

    for process in sequences().processes:
        for call in sequences().of(process):   # oldest first, at most `sequence_length`
            call.time_ns, call.operation, call.bytes, call.communicator

Where the ring was full, calls are missing; `stallwatch_probe_lost_total{stream="sequence"}` counts
them, and a gap is not marked.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from probes.nccl import abi
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.readings import Process
    from probes.nccl.records import CallRecord


@dataclass(frozen=True, slots=True)
class IssuedCall:
    """A call. `time_ns`: CLOCK_MONOTONIC. `communicator`: its identity, or its address."""

    time_ns: int
    operation: str
    bytes: int
    communicator: int

    @property
    def symbol(self) -> int:
        """A number for what was asked: the same for the same operation, size and communicator."""
        return hash((self.operation, self.bytes, self.communicator))


class Sequences:
    """The last `length` calls of each process. One thread uses it."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._calls: dict[Process, deque[IssuedCall]] = {}

    @property
    def processes(self) -> tuple[Process, ...]:
        """Those that called."""
        return tuple(self._calls)

    def of(self, process: Process) -> tuple[IssuedCall, ...]:
        """The calls of a process, oldest first."""
        return tuple(self._calls.get(process, ()))

    def add(self, process: Process, record: CallRecord) -> None:
        """A process called."""
        size = abi.ELEMENT_BYTES[record.dtype] if record.dtype < len(abi.ELEMENT_BYTES) else 0
        calls = self._calls.setdefault(process, deque(maxlen=self._length))
        name = abi.operation(record.operation)
        calls.append(IssuedCall(record.time, name, record.elements * size, record.communicator))

    def forget(self, process: Process) -> None:
        """A process ended."""
        self._calls.pop(process, None)


_current: list[Sequences] = []


def publish(found: Sequences | None) -> None:
    """For the probe: these are the sequences now; None: there are none any more."""
    _current[:] = [] if found is None else [found]


def sequences() -> Sequences | None:
    """Those of the running probe; None while it does not run, or does not keep them."""
    return _current[0] if _current else None
