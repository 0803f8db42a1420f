"""What the ring tells: initialisations, failures, ends of communicators. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.readings import Count, Event
from probes.nccl import abi
from probes.nccl.accounts import NANOSECONDS, name_of
from probes.nccl.records import NONBLOCKING, UNKNOWN_RANK, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.readings import FieldValue, Pairs, Process, Reading
    from probes.nccl.records import EventRecord

STREAM = "events"
ENDS = {
    Kind.ABORT: ("abort", "CommAbort"),
    Kind.DESTROY: ("destroy", "CommDestroy"),
    Kind.FINALIZE: ("finalize", "CommFinalize"),
    Kind.REVOKE: ("revoke", "CommRevoke"),
}
NAMES = {
    Kind.INIT: "nccl_init",
    Kind.ASYNC_ERROR: "nccl_async_error",
    Kind.FAILED_CALL: "nccl_call_failed",
} | {kind: f"nccl_{how}" for kind, (how, _) in ENDS.items()}
# Upper bounds of nccl_init_seconds: a communicator of one node takes a second, of a thousand some
# ten; NCCL's own time-outs are minutes.
INIT_BOUNDS = (0.0625, 0.25, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)


def readings(
    record: EventRecord,
    process: Process | None,
    *,
    slow_seconds: float,
    to_ms: Callable[[int], int],
    told: bool,
) -> Iterator[Reading]:
    """What one record means; the first reading has its weight.

    An initialisation is an event when it was slow or failed. `told` False: there were too many
    events of the process, and it is counted only.
    """
    try:
        kind = Kind(record.kind)
    except ValueError:
        return
    seconds = max(0, record.time - record.since) / NANOSECONDS
    weight = 1
    if kind in ENDS:
        labels = (("how", ENDS[kind][0]),)
        yield Count("nccl_communicator_ends_total", process, 1.0, labels, weight, STREAM)
        weight = 0
    elif kind is Kind.INIT and not record.result:
        for count in _duration(abi.call(record.function), seconds):
            yield Count(count[0], process, count[1], count[2], weight, STREAM)
            weight = 0
    if kind is Kind.INIT and not record.result and seconds < slow_seconds:
        return
    if told or weight:
        name = "nccl_init_failed" if kind is Kind.INIT and record.result else NAMES[kind]
        fields = _fields(record, kind, seconds)
        if told:
            yield Event(name, to_ms(record.time), process, fields, weight, STREAM)
        else:
            yield Count("nccl_calls_total", process, 0.0, (("op", "AllReduce"),), weight, STREAM)


def _duration(call: str, seconds: float) -> Iterator[tuple[str, float, Pairs]]:
    labels = (("call", call),)
    yield "nccl_init_seconds_count", 1.0, labels
    yield "nccl_init_seconds_sum", seconds, labels
    for bound in INIT_BOUNDS:
        if seconds <= bound:
            yield "nccl_init_seconds_bucket", 1.0, (*labels, ("le", str(bound)))
    yield "nccl_init_seconds_bucket", 1.0, (*labels, ("le", "+Inf"))


def _fields(record: EventRecord, kind: Kind, seconds: float) -> tuple[tuple[str, FieldValue], ...]:
    call = ENDS[kind][1] if kind in ENDS else abi.call(record.function)
    fields: list[tuple[str, FieldValue]] = [("lib", "nccl"), ("call", f"nccl{call}")]
    if record.result:
        fields.append(("result", abi.result(record.result)))
    if kind is Kind.INIT:
        fields.append(("seconds", round(seconds, 6)))
        fields.append(("nonblocking", int(bool(record.flags & NONBLOCKING))))
    if record.id:
        fields.append(("communicator", name_of(record.id)))
    if record.rank != UNKNOWN_RANK:
        fields.append(("comm_rank", record.rank))
    if record.nranks != UNKNOWN_RANK:
        fields.append(("nranks", record.nranks))
    fields.append(("tid", record.tid))
    return tuple(fields)
