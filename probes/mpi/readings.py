"""From counts of calls to readings. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from engine.readings import Count, Event, Level
from probes.mpi.functions import ABORT, ERROR, INIT, SLOTS
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.readings import Pairs, Process, Reading
    from probes.functions.totals import Calls, SlowCall

NANOSECONDS = 1e9
_TROUBLE = struct.Struct("=QIIq")
# The counters that begin with a 0 as soon as a process maps MPI.
FIRST = ("Allreduce", "Barrier", "Recv", "Wait", "Waitall")


def wait_labels(operation: str) -> Pairs:
    """The labels of a wait."""
    return ("lib", "mpi"), ("op", operation)


COUNTERS: tuple[tuple[str, Pairs], ...] = (
    ("mpi_inits_total", ()),
    ("mpi_errors_total", ()),
    ("mpi_aborts_total", ()),
    *(("mpi_calls_total", (("op", each),)) for each in FIRST),
    *(("comm_wait_seconds_total", wait_labels(each)) for each in FIRST),
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """`struct trouble` of program.bpf.c. Time: CLOCK_MONOTONIC nanoseconds."""

    time_ns: int
    pid: int
    slot: str
    code: int

    @classmethod
    def decode(cls, record: bytes) -> Trouble:
        """From a record of the ring."""
        time_ns, pid, slot, code = _TROUBLE.unpack_from(record)
        return cls(time_ns, pid, SLOTS[slot], code)

    def event(self, process: Process | None, time_ms: int) -> Event:
        """`mpi_abort` with the job's exit code, `mpi_error` with the implementation's code."""
        fields = (("code", self.code),) if self.code >= 0 or self.slot == ABORT else ()
        return Event(f"mpi_{self.slot.lower()}", time_ms, process, fields, weight=1)


def counts(calls: Calls) -> Count:
    """The calls of one slot, with the weight of their hits."""
    number, hits = float(calls.total.calls), calls.total.hits
    if calls.name == INIT:
        return Count("mpi_inits_total", calls.process, number, weight=hits)
    if calls.name == ABORT:
        return Count("mpi_aborts_total", calls.process, number, weight=hits)
    if calls.name == ERROR:
        return Count("mpi_errors_total", calls.process, number, weight=hits)
    labels = (("op", calls.name),)
    return Count("mpi_calls_total", calls.process, number, labels, weight=hits)


def waits(
    process: Process, waited: Mapping[str, int], length: int, *, told: bool = True
) -> Iterator[Reading]:
    """Waits in seconds, and their share of the time; `told` False: no share would be right."""
    for operation, nanoseconds in waited.items():
        seconds = nanoseconds / NANOSECONDS
        yield Count("comm_wait_seconds_total", process, seconds, wait_labels(operation))
    if told:
        share = min(1.0, sum(waited.values()) / length) if length > 0 else 0.0
        yield Level("comm_wait_ratio", process, share)


def slow_event(slow: SlowCall) -> Event:
    """An initialisation that took long."""
    fields = (("seconds", slow.record.duration / NANOSECONDS),)
    return Event("mpi_slow_init", slow.time_ms, slow.process, fields, weight=1)
