"""Maps and records decoded, and turned into readings. Neither root nor a kernel is needed."""

from __future__ import annotations

import re
import struct

import pytest

from engine.readings import Count, Event, Level, Process
from probes.nccl import abi
from probes.nccl.accounts import Account, operation, told_rank
from probes.nccl.budget import BYTES, CALLS_, TRAPS
from probes.nccl.events import readings
from probes.nccl.functions import FUNCTIONS, WAITS
from probes.nccl.records import (
    CallRecord,
    Clock,
    ClockKey,
    Communicator,
    ErrorKey,
    EventRecord,
    Interval,
    Kind,
    Place,
    ProcessRecord,
    Spent,
    SpentKey,
    ThreadRecord,
    Total,
    TotalKey,
    layout,
)
from probes.nccl.running import PROGRAMS, SOURCE
from probes.nccl.sequence import Sequences
from probes.nccl.snapshot import View

PROCESS = Process(10, 20)
SECOND = 1_000_000_000
FIRST = abi.FIRST_INITIALISATION


def record(enqueued: int = 1, kernels: int = 0) -> ProcessRecord:
    return ProcessRecord(1, 5, enqueued, kernels, 0, 0, (0,) * 8, 10, 0, 0, 0)


def view(enqueued: int = 1, kernels: int = 0) -> View:
    return View(record(enqueued, kernels), ended=False)


def test_records_have_the_sizes_that_the_program_gives_them() -> None:
    assert layout(ThreadRecord).size == 144
    assert layout(EventRecord).size == 72
    assert layout(CallRecord).size == 40
    assert len(ThreadRecord._fields) == len(layout(ThreadRecord).unpack(bytes(144)))
    decoded = ProcessRecord.decode(struct.pack("=14QIIII", *range(14), 14, 15, 16, 0))
    assert (decoded.born, decoded.asked, decoded.tgid, decoded.operation) == (0, 5, 14, 15)
    assert decoded.synchronised == tuple(range(6, 14))
    assert len(decoded.synchronised) == len(WAITS)


def test_every_program_that_a_function_names_is_in_the_source() -> None:
    texts = [each.read_text() for each in (SOURCE, *SOURCE.parent.glob("*.h"))]
    # `int name(struct pt_regs *ctx)`, or made by a macro: `WAIT(name, 0)`.
    defined = re.findall(r"^(?:int |[A-Z_]+\()(\w+)", "\n".join(texts), re.MULTILINE)
    assert set(PROGRAMS) <= set(defined)
    assert len({function.name for function in FUNCTIONS}) == len(FUNCTIONS)


@pytest.mark.parametrize("number", range(16))
def test_the_bytes_of_a_type_are_the_same_here_and_in_the_program(number: int) -> None:
    source = SOURCE.with_name("collectives.h").read_text()
    body = source[source.index("static inline u64 element_bytes") :]
    body = body[: body.index("\n}")]
    size = next(
        (
            int(returned)
            for condition, returned in zip(
                [line for line in body.splitlines() if line.startswith("\tif")],
                [line.split()[1].rstrip(";") for line in body.splitlines() if "\t\treturn" in line],
                strict=True,
            )
            if eval(condition.removeprefix("\tif ").replace("||", "or"), {"dtype": number})
        ),
        0,
    )
    assert size == (abi.ELEMENT_BYTES[number] if number < len(abi.ELEMENT_BYTES) else 0)


def test_bytes_of_a_call_that_a_look_met_half_counted_come_with_the_next_look() -> None:
    account, seen = Account(settled=0), view()
    looks = []
    for total in (Total(1, 0), Total(1, 300)):
        seen.totals = {TotalKey(1, 7, 0, 0): total}
        looks.append(account.advance(seen, 1)["AllReduce"])
    assert [(look[CALLS_], look[BYTES]) for look in looks] == [(1, 0), (0, 300)]


def test_calls_are_told_once_by_operation_and_communicator() -> None:
    account, seen = Account(settled=0), view()
    seen.totals = {
        TotalKey(1, 7, 0, 0): Total(3, 300),
        TotalKey(1, 8, 0, 13): Total(1, 1 << 33),
        TotalKey(1, 0, 9, 2): Total(2, 5000),
    }
    deltas = account.advance(seen, 1)
    assert sorted(deltas) == ["AllReduce", "Recv"]
    assert (deltas["AllReduce"][TRAPS], deltas["AllReduce"][CALLS_]) == (4, 4)
    assert account.advance(seen, 1) == {}
    told = {
        (c.metric, dict(c.labels)["communicator"]): c.delta
        for c in account.settle(seen, PROCESS)
        if "communicator" in c.metric
    }
    assert told["nccl_communicator_calls_total", "0000000000000007"] == 3
    assert told["nccl_communicator_calls_total", "other"] == 1
    assert told["nccl_communicator_bytes_total", "unknown"] == 5000
    below = {
        dict(c.labels)["le"]: c.delta
        for c in operation(PROCESS, "AllReduce", deltas["AllReduce"])
        if c.metric == "nccl_message_bytes_bucket"
    }
    assert (below["256.0"], below[str(2.0**32)], below["+Inf"]) == (3, 3, 4)


def test_hits_are_weighed_once_and_errors_have_names() -> None:
    account, seen = Account(settled=0), view()
    seen.errors = {ErrorKey(1, FIRST + 4, 8): 2, ErrorKey(1, 3, 12): 1}
    counts = [*account.settle(seen, PROCESS), *account.settle(seen, PROCESS)]
    assert sum(each.weight for each in counts) == 5
    errors = [(dict(c.labels), c.delta) for c in counts if c.metric == "nccl_errors_total"]
    assert errors[:2] == [
        ({"op": "CommSplit", "result": "ncclTimeout"}, 2),
        ({"op": "Broadcast", "result": "other"}, 1),
    ]
    assert [delta for _, delta in errors[2:]] == [0, 0]


def waits(account: Account, seen: View, now: int, *, kernels: bool = True) -> tuple[float, float]:
    """(seconds, ratio) of one look."""
    found = [*account.waits(seen, PROCESS, now, known=True, kernels=kernels)]
    seconds = sum(
        each.delta
        for each in found
        if isinstance(each, Count) and each.metric == "comm_wait_seconds_total"
    )
    ratios = [e.value for e in found if isinstance(e, Level) and e.metric == "comm_wait_ratio"]
    return seconds, ratios[0]


def test_an_open_wait_counts_at_each_look_and_only_once_when_it_closes() -> None:
    account, seen = Account(settled=0), view()
    seen.intervals = {ClockKey(1, Clock.WAITING): Interval(2 * SECOND, 0)}
    assert waits(account, seen, 10 * SECOND) == (8, 0.8)
    assert waits(account, seen, 20 * SECOND) == (10, 1)
    seen.intervals, seen.spent = {}, {SpentKey(1, Clock.WAITING, 0): Spent(19 * SECOND, 1)}
    assert waits(account, seen, 30 * SECOND) == (1, 0.1)
    assert waits(account, seen, 40 * SECOND) == (0, 0)


def test_with_kernel_events_only_the_exposed_part_is_a_wait() -> None:
    account, seen = Account(settled=0), view(kernels=3)
    seen.spent = {
        SpentKey(1, Clock.WAITING, 0): Spent(8 * SECOND, 1),
        SpentKey(1, Clock.EXPOSED, 0): Spent(2 * SECOND, 1),
        SpentKey(1, Clock.KERNELS, 0): Spent(5 * SECOND, 1),
    }
    assert waits(account, seen, 10 * SECOND) == (2, 0.2)
    other = Account(settled=0)
    assert waits(other, seen, 10 * SECOND, kernels=False) == (8, 0.8)


def test_a_wait_whose_thread_ended_ends_where_it_was_seen_last() -> None:
    account, seen = Account(settled=0), view()
    seen.intervals = {ClockKey(1, Clock.WAITING): Interval(SECOND, 0)}
    assert waits(account, seen, 10 * SECOND) == (9, 0.9)
    account.abandon(seen, Clock.WAITING)
    assert waits(account, seen, 20 * SECOND) == (0, 0)
    seen.spent = {SpentKey(1, Clock.WAITING, 0): Spent(3 * SECOND, 1)}
    assert waits(account, seen, 30 * SECOND) == (3, 0.3)


def test_nothing_is_claimed_where_no_collective_was_seen_or_no_wait_can_be() -> None:
    account = Account(settled=0)
    for enqueued, known in ((0, True), (1, False)):
        found = [*account.waits(view(enqueued), PROCESS, SECOND, known=known, kernels=True)]
        assert not found


def communicator(
    rank: int, nranks: int, *, id_: int = 1, since: int = 0, function: int = FIRST
) -> Communicator:
    return Communicator(id_, since, rank, nranks, 0, 0, function, 1)


@pytest.mark.parametrize(
    ("communicators", "told"),
    [
        ([], None),
        ([communicator(3, 8)], (3, 8)),
        ([communicator(0, 2), communicator(3, 8, id_=2)], (3, 8)),
        ([communicator(3, 8, since=1), communicator(5, 8, id_=2, since=9)], (3, 8)),
        # Two ranks in one process; a split-off one; one of a single rank; one not ready.
        ([communicator(0, 2), communicator(1, 2)], None),
        ([communicator(1, 4, function=FIRST + 4)], None),
        ([communicator(0, 1)], None),
        ([communicator(1, 4)._replace(ready=0)], None),
    ],
)
def test_the_global_rank_is_told_only_where_it_is_sure(
    communicators: list[Communicator], told: tuple[int, int] | None
) -> None:
    assert told_rank(communicators) == told


def event(kind: int, **fields: int) -> EventRecord:
    base = EventRecord(90 * SECOND, 1, (10 << 32) | 11, 5, 7, 20 * SECOND, 3, 8, kind, FIRST, 0, 0)
    return base._replace(**fields)


def tell(record: EventRecord, *, slow: float = 60.0, told: bool = True) -> list[object]:
    return [*readings(record, PROCESS, slow_seconds=slow, to_ms=lambda ns: ns, told=told)]


def test_a_slow_initialisation_is_counted_and_told_with_its_place() -> None:
    *counts, slow = tell(event(Kind.INIT))
    assert isinstance(slow, Event)
    fields = dict(slow.fields)
    assert (slow.kind, fields["seconds"], fields["comm_rank"]) == ("nccl_init", 70, 3)
    assert (fields["nranks"], fields["tid"], fields["lib"]) == (8, 11, "nccl")
    assert sum(each.weight for each in counts if isinstance(each, Count)) + slow.weight == 1
    assert not any(isinstance(each, Event) for each in tell(event(Kind.INIT), slow=71))


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("result", [0, 6])
def test_every_record_is_consumed_exactly_once(kind: Kind, told: bool, result: int) -> None:
    found = tell(event(kind, result=result), told=told)
    assert sum(getattr(each, "weight", 0) for each in found) == 1
    assert not any(isinstance(each, Event) for each in found) or told


def test_the_sequence_of_calls_is_bounded_and_in_order() -> None:
    sequences = Sequences(3)
    for i in range(5):
        sequences.add(PROCESS, CallRecord(i, 7, 10 << 32, 100, i % 2, 7))
    calls = sequences.of(PROCESS)
    assert [call.time_ns for call in calls] == [2, 3, 4]
    assert [call.operation for call in calls] == ["AllReduce", "AllGather", "AllReduce"]
    assert calls[0].bytes == 400
    assert calls[0].symbol == calls[2].symbol != calls[1].symbol
    sequences.forget(PROCESS)
    assert sequences.processes == ()


def test_open_initialisations_are_those_of_threads_groups_and_communicators() -> None:
    seen = view()
    idle = ThreadRecord(*layout(ThreadRecord).unpack(bytes(144)))
    seen.threads = {
        (10, 10): idle._replace(frame=1, since=5, function=FIRST),
        (10, 11): idle._replace(frame=1, since=6, function=0),
        (10, 12): idle,
    }
    seen.communicators = {Place(1, 1): communicator(0, 2, since=8)._replace(ready=0)}
    assert sorted(seen.open_initialisations({(10, 12): 7, (99, 1): 1})) == [5, 7, 8]
