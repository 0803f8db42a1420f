from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Count, Level, Process
from probes.torch_step import report
from probes.torch_step.accounts import Accounts, Interval
from probes.torch_step.thread import (
    DDP,
    MARKER,
    OPTIMIZER,
    Collective,
    Steps,
    ThreadKey,
    ThreadState,
    operation_name,
)

SECOND = 1_000_000_000
PID, TID = 500, 501
NONE: frozenset[int] = frozenset()
FINALIZE = (("lib", "torch"), ("op", "finalize_backward"))
WAIT = (("lib", "torch"), ("op", "wait"))


def settle(accounts: Accounts, state: ThreadState, now: int) -> Interval:
    return accounts.settle(PID, {TID: state}, NONE, now)


def ops(finalize: int = 0, wait: int = 0) -> tuple[int, ...]:
    return finalize, wait, 0, 0, 0


def marks(mark: int, steps: Steps) -> tuple[Steps, ...]:
    return tuple(steps if each == mark else Steps() for each in (MARKER, DDP, OPTIMIZER))


def test_a_record_is_decoded_field_by_field() -> None:
    fields = [*range(1, 7), *range(10, 18), *range(20, 25), *range(30, 48), *range(50, 58)]
    state = ThreadState.decode(struct.pack("=45Q", *fields))
    assert state == ThreadState(
        hits=1,
        abandoned=2,
        open_since=3,
        open_op=5,
        op_ns=(10, 11, 12, 13, 14),
        backwards=20,
        flight_ns=23,
        flight_since=24,
        steps=(Steps(30, 31, 32, 33), Steps(36, 37, 38, 39), Steps(42, 43, 44, 45)),
        traps=tuple(range(50, 58)),
    )
    key = ThreadKey(PID, TID, 7)
    assert ThreadKey.decode(key.encode()) == key


def test_a_collective_is_decoded_from_a_record_that_may_be_padded() -> None:
    record = struct.pack("=QII", 7, PID, 1) + bytes(8)
    assert Collective.decode(record) == Collective(7, PID, 1)
    assert [operation_name(each) for each in (0, 1, 16, 100)] == [
        "broadcast", "all_reduce", "reduce_scatter_tensor", "other"
    ]  # fmt: skip


def test_steps_and_waits_are_the_differences_between_two_looks() -> None:
    accounts = Accounts()
    before = ThreadState(hits=4, op_ns=ops(60), steps=marks(DDP, Steps(2, 1, 100, 50)))
    after = ThreadState(
        hits=10, op_ns=ops(90, 7), backwards=3, steps=marks(DDP, Steps(5, 4, 400, 80))
    )
    settle(accounts, before, 1000)
    assert settle(accounts, after, 2000) == Interval(
        hits=6, backwards=3, op_ns=ops(30, 7), steps=marks(DDP, Steps(3, 3, 300, 30))
    )


def test_a_wait_that_has_not_returned_counts_at_every_look() -> None:
    accounts = Accounts()
    accounts.open_process(PID, 0)
    hang = ThreadState(hits=1, open_since=4 * SECOND, open_op=1)
    assert settle(accounts, hang, 10 * SECOND).op_ns == ops(wait=6 * SECOND)
    assert settle(accounts, hang, 20 * SECOND).op_ns == ops(wait=10 * SECOND)
    returned = ThreadState(hits=2, op_ns=ops(wait=17 * SECOND))
    assert settle(accounts, returned, 30 * SECOND).op_ns == ops(wait=1 * SECOND)


def test_after_a_gap_waits_count_again_and_the_one_whose_end_was_missed_does_not() -> None:
    accounts = Accounts()
    accounts.open_process(PID, 0)
    missed = ThreadState(open_since=9 * SECOND, open_op=1, op_ns=ops(wait=3 * SECOND))
    for second in range(10, 600, 5):
        settle(accounts, missed, second * SECOND)
    accounts.mend_gap(600 * SECOND)
    assert settle(accounts, missed, 605 * SECOND).wait_ns == 0
    # The kernel takes the next entry for the end of the wait that it knows of.
    ended = ThreadState(op_ns=ops(wait=600 * SECOND))
    assert settle(accounts, ended, 610 * SECOND).wait_ns == 0
    later = ThreadState(op_ns=ops(wait=602 * SECOND))
    assert settle(accounts, later, 615 * SECOND).wait_ns == 2 * SECOND


def test_a_wait_that_begins_while_the_map_is_read_is_zero() -> None:
    assert settle(Accounts(), ThreadState(hits=1, open_since=11), 10).wait_ns == 0


def test_a_read_between_the_two_writes_of_an_exit_is_mended_by_the_next() -> None:
    accounts = Accounts()
    settle(accounts, ThreadState(hits=1, open_since=10), 50)
    torn = ThreadState(hits=2, open_since=0)
    assert settle(accounts, torn, 60).wait_ns == 0
    assert settle(accounts, ThreadState(hits=2, op_ns=ops(45)), 70).wait_ns == 5


def test_the_open_wait_of_a_dead_thread_ends_where_it_was_last_counted() -> None:
    accounts = Accounts()
    state = ThreadState(hits=1, open_since=10)
    settle(accounts, state, 50)
    assert accounts.settle(PID, {TID: state}, frozenset({TID}), 1000).wait_ns == 0
    # The same tid again, in a record of its own.
    assert settle(accounts, ThreadState(hits=1, open_since=2000), 2100).wait_ns == 100


def test_threads_that_wait_together_never_count_more_than_the_time_that_passed() -> None:
    accounts = Accounts()
    accounts.open_process(PID, 0)
    threads = {tid: ThreadState(hits=1, open_since=10, open_op=tid % 2) for tid in (1, 2, 3)}
    waited = accounts.settle(PID, threads, NONE, 100)
    assert waited.op_ns == ops(33, 66)
    assert waited.wait_ns <= 100


def test_a_rank_whose_own_gloo_threads_are_slow_does_not_wait_for_others() -> None:
    accounts = Accounts()
    accounts.open_process(PID, 0)
    main = ThreadState(op_ns=ops(80, 10), steps=marks(DDP, Steps(3, 3, 100, 60)))
    worker = ThreadState(flight_ns=10, flight_since=95)
    slow = accounts.settle(PID, {TID: main, TID + 1: worker}, NONE, 100)
    assert slow.op_ns == ops(13, 1)
    assert slow.steps[DDP].wait_ns == 60 * 14 // 90
    # Its thread waits for data all the time now: it waits for others.
    main = ThreadState(op_ns=ops(160, 10))
    blocked = accounts.settle(PID, {TID: main, TID + 1: worker}, NONE, 200)
    assert blocked.op_ns == ops(80)
    # And not at all while it sends.
    main, worker = ThreadState(op_ns=ops(260, 10)), ThreadState(flight_ns=115)
    assert accounts.settle(PID, {TID: main, TID + 1: worker}, NONE, 300).op_ns == ops()


def test_without_gloo_a_wait_is_what_the_thread_that_asks_waits() -> None:
    accounts = Accounts()
    accounts.open_process(PID, 0)
    main = ThreadState(op_ns=ops(80))
    assert accounts.settle(PID, {TID: main, TID + 1: ThreadState()}, NONE, 100).op_ns == ops(80)


def test_the_weight_of_all_readings_is_the_number_of_hits() -> None:
    process = Process(PID, 1)
    interval = Interval(
        hits=21, backwards=12, op_ns=ops(SECOND // 2, SECOND // 4),
        steps=marks(DDP, Steps(10, 10, SECOND, SECOND // 4)),
    )  # fmt: skip
    assert list(report.counts(interval, process, DDP)) == [
        Count("backward_passes_total", process, 12.0, weight=21),
        Count("steps_total", process, 10.0),
        Count("comm_wait_seconds_total", process, 0.5, FINALIZE),
        Count("comm_wait_seconds_total", process, 0.25, WAIT),
    ]
    assert list(report.levels(interval, process, DDP)) == [
        Level("step_source", process, 1.0, (("source", "ddp"),)),
        Level("step_time_seconds", process, 0.1),
        Level("step_comm_wait_ratio", process, 0.25),
    ]


def test_a_watched_process_without_a_step_still_has_its_wait_ratio() -> None:
    process, shares = Process(PID, 1), report.WaitRatio()
    assert list(report.counts(Interval(), process, None)) == []
    assert list(report.levels(Interval(), process, None)) == []
    assert list(shares.of(process, Interval(), SECOND, seen=True, stands=False)) == [
        Level("comm_wait_ratio", process, 0.0)
    ]


def test_a_share_stands_between_slices_and_no_longer() -> None:
    process, shares = Process(PID, 1), report.WaitRatio()
    half, quarter = Interval(op_ns=ops(SECOND // 2)), Interval(op_ns=ops(SECOND // 4))

    def told(interval: Interval, *, seen: bool, stands: bool) -> list[float]:
        readings = shares.of(process, interval, SECOND, seen=seen, stands=stands)
        return [each.value for each in readings if isinstance(each, Level)]

    assert told(Interval(), seen=False, stands=True) == []  # no slice has shown one yet
    assert told(half, seen=True, stands=True) == [0.5]
    assert told(Interval(), seen=False, stands=True) == [0.5]
    assert told(quarter, seen=True, stands=True) == [0.25]
    assert told(Interval(), seen=False, stands=False) == []  # the steps themselves are let go
    assert told(Interval(), seen=False, stands=True) == []  # and what was before says nothing now
    assert told(half, seen=True, stands=True) == [0.5]
    shares.forget(process)
    assert told(Interval(), seen=False, stands=True) == []


def test_a_more_certain_mark_takes_over_and_a_less_certain_one_does_not() -> None:
    source, one = report.StepSource(), Steps(1)
    assert source.of(PID, marks(DDP, Steps())) is None
    assert not source.known(PID)
    assert source.of(PID, marks(OPTIMIZER, one)) == OPTIMIZER
    assert source.of(PID, marks(DDP, one)) == DDP
    assert source.of(PID, marks(OPTIMIZER, one)) == DDP
    assert source.of(PID, marks(MARKER, one)) == MARKER
    source.forget(PID)
    assert source.of(PID, marks(OPTIMIZER, one)) == OPTIMIZER


def test_a_chosen_mark_is_the_only_one() -> None:
    source = report.StepSource("optimizer")
    assert source.of(PID, marks(DDP, Steps(1))) is None
    assert source.of(PID, marks(OPTIMIZER, Steps(1))) == OPTIMIZER


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "leave", "look"]), st.integers(1, 50)), max_size=40
    )
)
def test_all_looks_together_see_exactly_what_the_program_counted(
    script: list[tuple[str, int]],
) -> None:
    accounts, now, state = Accounts(), 1, ThreadState()
    accounts.open_process(PID, now)
    hits = steps = waited = inside = looked_at = 0
    seen = [0, 0, 0]

    def look() -> None:
        part = settle(accounts, state, now)
        assert 0 <= part.wait_ns <= now - looked_at
        seen[:] = [seen[0] + part.hits, seen[1] + part.steps[DDP].marks, seen[2] + part.wait_ns]

    for action, elapsed in script:
        now += elapsed
        waited += elapsed if inside else 0
        if action == "look":
            look()
            looked_at = now
            continue
        hits += 1
        closed = state.op_ns[0] + (now - state.open_since if state.open_since else 0)
        steps += action == "leave" and inside
        inside = int(action == "enter")
        state = ThreadState(
            hits=hits,
            op_ns=ops(closed),
            open_since=now if inside else 0,
            steps=marks(DDP, Steps(steps)),
        )
    look()
    assert seen == [hits, steps, waited]
