"""The bounded queue."""

from __future__ import annotations

from engine.aggregate.queue import FlushMark, ReadingQueue
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
