from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Count, Level, Process
from probes.torch_step.accounts import (
    WAIT_LABELS,
    Accounts,
    Interval,
    ThreadState,
    decode_key,
    encode_key,
)

SECOND = 1_000_000_000
PID, TID = 500, 501
NONE: frozenset[int] = frozenset()


def settle(accounts: Accounts, state: ThreadState, now: int) -> Interval:
    return accounts.settle(PID, {TID: state}, NONE, now)


def test_a_record_is_decoded_field_by_field() -> None:
    state = ThreadState.decode(struct.pack("=9Q", *range(1, 10)))
    assert state == ThreadState(1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert decode_key(encode_key(PID, TID)) == (PID, TID)


def test_steps_and_waits_are_the_differences_between_two_looks() -> None:
    accounts = Accounts()
    settle(accounts, ThreadState(hits=4, steps=2, timed=1, step_ns=100, wait_ns=60), 1000)
    interval = settle(
        accounts, ThreadState(hits=10, steps=5, timed=4, step_ns=400, wait_ns=90), 2000
    )
    assert interval == Interval(hits=6, steps=3, timed=3, step_ns=300, wait_ns=30)


def test_a_wait_that_has_not_returned_counts_at_every_look() -> None:
    accounts = Accounts()
    accounts.open_process(PID, 0)
    hang = ThreadState(hits=1, open_since=4 * SECOND)
    assert settle(accounts, hang, 10 * SECOND).wait_ns == 6 * SECOND
    assert settle(accounts, hang, 20 * SECOND).wait_ns == 10 * SECOND
    returned = ThreadState(hits=2, steps=1, wait_ns=17 * SECOND)
    assert settle(accounts, returned, 30 * SECOND).wait_ns == 1 * SECOND


def test_a_wait_that_begins_while_the_map_is_read_is_zero() -> None:
    assert settle(Accounts(), ThreadState(hits=1, open_since=11), 10).wait_ns == 0


def test_a_read_between_the_two_writes_of_an_exit_is_mended_by_the_next() -> None:
    accounts = Accounts()
    settle(accounts, ThreadState(hits=1, open_since=10), 50)
    torn = ThreadState(hits=2, open_since=0, wait_ns=0)
    assert settle(accounts, torn, 60).wait_ns == 0
    assert settle(accounts, ThreadState(hits=2, wait_ns=45), 70).wait_ns == 5


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
    threads = {tid: ThreadState(hits=1, open_since=10) for tid in (1, 2, 3)}
    assert accounts.settle(PID, threads, NONE, 100).wait_ns == 100


def test_the_weight_of_all_readings_is_the_number_of_hits() -> None:
    process = Process(PID, 1)
    interval = Interval(hits=21, steps=10, timed=10, step_ns=SECOND, step_wait_ns=SECOND // 4,
                        wait_ns=SECOND // 2)  # fmt: skip
    assert list(interval.readings(process)) == [
        Count("steps_total", process, 10.0, weight=21),
        Count("comm_wait_seconds_total", process, 0.5, WAIT_LABELS),
    ]
    assert list(interval.levels(process, SECOND)) == [
        Level("comm_wait_ratio", process, 0.5),
        Level("step_time_seconds", process, 0.1),
        Level("step_comm_wait_ratio", process, 0.25),
    ]


def test_a_watched_process_without_a_step_still_has_its_wait_ratio() -> None:
    process = Process(PID, 1)
    assert list(Interval().readings(process)) == []
    assert list(Interval().levels(process, SECOND)) == [Level("comm_wait_ratio", process, 0.0)]


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
    seen = Interval()

    def look() -> None:
        part = settle(accounts, state, now)
        assert 0 <= part.wait_ns <= now - looked_at
        seen.hits += part.hits
        seen.steps += part.steps
        seen.wait_ns += part.wait_ns

    for action, elapsed in script:
        now += elapsed
        waited += elapsed if inside else 0
        if action == "look":
            look()
            looked_at = now
            continue
        hits += 1
        closed = state.wait_ns + (now - state.open_since if state.open_since else 0)
        steps += action == "leave" and inside
        inside = int(action == "enter")
        state = ThreadState(hits=hits, steps=steps, wait_ns=closed, open_since=now if inside else 0)
    look()
    assert (seen.hits, seen.steps, seen.wait_ns) == (hits, steps, waited)
