"""From counts of calls to readings. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from engine.readings import Count, Event, Level, Told
from probes.gloo.functions import CONNECT, FAILURE, RECV, SEND
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.readings import Pairs, Process, Reading
    from probes.functions.totals import Calls, OpenCall, SlowCall

NANOSECONDS = 1e9
_GROUP = struct.Struct("=QIiiI")
OPERATIONS = {RECV: "recv", SEND: "send", CONNECT: "connect", FAILURE: "collective"}
COUNTERS: tuple[tuple[str, Pairs], ...] = (
    ("gloo_wait_seconds_total", (("op", "recv"),)),
    ("gloo_wait_seconds_total", (("op", "send"),)),
    ("gloo_connects_total", ()),
    *(("gloo_failures_total", (("op", op),)) for op in OPERATIONS.values()),
)


@dataclass(frozen=True, slots=True)
class Group:
    """`struct group` of program.bpf.c: a process joined a group. Time: CLOCK_MONOTONIC ns."""

    time_ns: int
    pid: int
    rank: int
    size: int

    @classmethod
    def decode(cls, record: bytes) -> Group:
        """From a record of the ring."""
        return cls(*_GROUP.unpack_from(record)[:4])

    def readings(self, process: Process | None, time_ms: int) -> Iterator[Reading]:
        """The rank, where it makes sense, and an event that carries the weight."""
        fields = (("group_rank", self.rank), ("group_size", self.size))
        yield Event("gloo_group", time_ms, process, fields, weight=1)
        if process is not None and 0 <= self.rank < self.size:
            yield Told(process, self.rank, self.size)


def counts(calls: Calls, now_ms: int) -> Iterator[Reading]:
    """Counters of one slot; the first carries the weight of its hits.

    An entry that will have no exit was left by an exception: the wait or the connect failed.
    """
    total, process = calls.total, calls.process
    failed = total.calls if calls.name == FAILURE else total.abandoned
    labels = (("op", OPERATIONS[calls.name]),)
    seconds = total.sum / NANOSECONDS
    yield Count("gloo_failures_total", process, float(failed), labels, weight=total.hits)
    if calls.name == CONNECT:
        yield Count("gloo_connects_total", process, float(total.calls))
        yield Count("gloo_connect_seconds_total", process, seconds)
        for _ in range(total.abandoned):
            yield Event("gloo_connect_failed", now_ms, process)
    elif calls.name != FAILURE:
        yield Count("gloo_waits_total", process, float(total.calls), labels)
        yield Count("gloo_wait_seconds_total", process, seconds, labels)


def open_levels(open_calls: Iterable[OpenCall], now: int) -> Iterator[Level]:
    """How long the oldest connect of each process has been going on."""
    oldest: dict[Process, int] = {}
    for call in open_calls:
        if call.name == CONNECT and call.process is not None:
            oldest[call.process] = min(call.since, oldest.get(call.process, now))
    for process, since in oldest.items():
        yield Level("gloo_connect_open_seconds", process, max(0, now - since) / NANOSECONDS)


def slow_event(slow: SlowCall) -> Event:
    """A connect that took long."""
    fields = (("seconds", slow.record.duration / NANOSECONDS),)
    return Event("gloo_slow_connect", slow.time_ms, slow.process, fields, weight=1)
