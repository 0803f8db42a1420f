"""The bounded queue."""

from __future__ import annotations

import threading

import pytest

from engine.aggregate.queue import WAKE, FlushMark, ReadingQueue
from engine.readings import Count, Event


def test_a_full_queue_drops_and_counts_the_weight_by_probe_and_stream() -> None:
    queue = ReadingQueue(2)
    assert queue.put("tcp", Count("m", None, 1, weight=1))
    assert queue.put("tcp", Event("e", 0, None, weight=1))
    assert not queue.put("tcp", Count("m", None, 7, weight=7))
    assert not queue.put("tcp", Event("e", 0, None, weight=1))
    assert queue.dropped() == {("tcp", ""): 7, ("tcp", "events"): 1}
    assert queue.depth() == 2


def test_marks_keep_their_place_and_are_never_dropped() -> None:
    queue = ReadingQueue(1)
    reading = Count("m", None, 1)
    queue.put("tcp", reading)
    queue.mark(FlushMark(10_000))
    queue.put("tcp", reading)
    queue.mark(FlushMark(20_000))
    assert queue.take(10, 0) == [("tcp", reading), FlushMark(10_000), FlushMark(20_000)]


def test_batches_are_bounded_and_a_closed_queue_hands_out_the_rest() -> None:
    queue = ReadingQueue(10)
    for i in range(3):
        queue.put("tcp", Count("m", None, i))
    queue.close()
    taken = [(len(queue.take(2, 0)), queue.closed) for _ in range(3)]
    assert taken == [(2, False), (1, True), (0, True)]


@pytest.mark.parametrize(("readings", "woken"), [(1, True), (WAKE, False)])
def test_a_taker_waits_for_a_wake_or_for_many_readings(readings: int, woken: bool) -> None:
    queue = ReadingQueue(WAKE)
    taken: list[int] = []
    taker = threading.Thread(target=lambda: taken.append(len(queue.take(WAKE, 600))), daemon=True)
    taker.start()
    for i in range(readings):
        queue.put("tcp", Count("m", None, i))
    if woken:
        queue.wake()
    taker.join(60)
    assert taken
