"""From readings of processes to samples of tasks and ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.aggregate.aggregator import TASK_INFO, Aggregator
from engine.aggregate.fold import Fold
from engine.aggregate.identity import Owner, TaskDirectory
from engine.aggregate.procfs import Procfs
from engine.labels import Labels
from engine.readings import PROBES_READY, Count, Event, Gone, Level, Process, Watched
from engine.series import stale_mask

if TYPE_CHECKING:
    from engine.flush import Flush

A0, A0_WORKER, A1, B0 = Process(1, 1), Process(9, 9), Process(2, 1), Process(3, 1)
OWNERS = {
    A0: Owner("a", "0", "py"),
    A0_WORKER: Owner("a", "0", "py"),
    A1: Owner("a", "1", "py"),
    B0: Owner("b", "0", "py"),
}


@dataclass(frozen=True)
class Living(Procfs):
    """Every process lives unless it is said to be dead."""

    dead: set[Process] = field(default_factory=set)

    def alive(self, process: Process) -> bool:
        return process not in self.dead


class Directory(TaskDirectory):
    def lookup(self, process: Process, *, library: bool = False) -> Owner:
        return OWNERS.get(process, Owner())


@pytest.fixture
def living() -> Living:
    return Living()


@pytest.fixture
def aggregator(living: Living) -> Aggregator:
    return Aggregator(Fold(Labels.of(node="n1")), Directory(living))


def shown(flush: Flush, *, info: bool = False) -> dict[str, float | str]:
    """The samples; of `stallwatch_task_info` those alone, or none."""
    stale = stale_mask(flush.values)
    return {
        str(labels): "stale" if gone else float(value)
        for labels, value, gone in zip(flush.labels, flush.values, stale, strict=True)
        if (labels.name == TASK_INFO) == info
    }


def retrans(process: Process, delta: float) -> Count:
    return Count("tcp_retrans_total", process, delta, weight=int(delta))


RETRANS_A0 = 'tcp_retrans_total{node="n1", rank="0", task_id="a"}'


def test_a_counter_starts_with_zero_and_its_first_burst_follows(aggregator: Aggregator) -> None:
    aggregator.add("tcp", retrans(A0, 40))
    assert shown(aggregator.flush(10_000)) == {RETRANS_A0: 0.0}
    assert shown(aggregator.flush(20_000)) == {RETRANS_A0: 40.0}


def test_a_watched_process_starts_its_counters_before_anything_happens(
    aggregator: Aggregator,
) -> None:
    aggregator.add("tcp", Watched(A0, (("tcp_retrans_total", ()),)))
    assert shown(aggregator.flush(10_000)) == {RETRANS_A0: 0.0}
    aggregator.add("tcp", retrans(A0, 3))
    assert shown(aggregator.flush(20_000)) == {RETRANS_A0: 3.0}


def test_processes_of_one_rank_fold_into_one_series_that_never_falls(
    aggregator: Aggregator,
) -> None:
    aggregator.add("tcp", retrans(A0, 5))
    aggregator.add("tcp", retrans(A0_WORKER, 7))
    aggregator.flush(10_000)
    assert shown(aggregator.flush(20_000)) == {RETRANS_A0: 12.0}
    aggregator.add("tcp", Gone(A0_WORKER))
    assert shown(aggregator.flush(30_000)) == {RETRANS_A0: 12.0}
    assert shown(aggregator.flush(40_000)) == {RETRANS_A0: 12.0}


def test_the_last_counts_of_a_dead_process_are_its_tasks_whichever_probe_tells_first(
    aggregator: Aggregator, living: Living
) -> None:
    aggregator.add("tcp", retrans(A0, 5))
    aggregator.flush(10_000)
    aggregator.flush(20_000)
    living.dead.add(A0)
    aggregator.add("gloo", Gone(A0))
    aggregator.add("tcp", retrans(A0, 2))
    assert shown(aggregator.flush(30_000)) == {RETRANS_A0: 7.0}


def test_a_process_found_dead_at_a_flush_may_still_be_counted_for_until_the_next(
    aggregator: Aggregator, living: Living
) -> None:
    aggregator.add("tcp", retrans(A0, 5))
    aggregator.flush(10_000)
    living.dead.add(A0)
    aggregator.flush(20_000)
    aggregator.add("tcp", retrans(A0, 2))
    assert shown(aggregator.flush(30_000)) == {RETRANS_A0: 7.0}


def test_a_staleness_marker_follows_the_last_process_of_a_task(
    aggregator: Aggregator, living: Living
) -> None:
    aggregator.add("tcp", retrans(A0, 5))
    aggregator.add("tcp", retrans(B0, 1))
    aggregator.flush(10_000)
    living.dead.add(A0)
    aggregator.flush(20_000)
    other = 'tcp_retrans_total{node="n1", rank="0", task_id="b"}'
    assert shown(aggregator.flush(30_000)) == {RETRANS_A0: "stale", other: 1.0}
    assert shown(aggregator.flush(40_000)) == {other: 1.0}


def test_a_job_that_dies_in_its_first_interval_still_shows_its_burst(
    aggregator: Aggregator, living: Living
) -> None:
    aggregator.add("tcp", retrans(A0, 5))
    living.dead.add(A0)
    seen = [shown(aggregator.flush(t)) for t in (10_000, 20_000, 30_000, 40_000)]
    assert seen == [{RETRANS_A0: 0.0}, {RETRANS_A0: 5.0}, {RETRANS_A0: "stale"}, {}]


def test_a_dead_ranks_late_retransmit_counts_while_its_task_lives(
    aggregator: Aggregator, living: Living
) -> None:
    aggregator.add("tcp", retrans(A0, 5))
    aggregator.add("tcp", Watched(A1))
    living.dead.add(A0)
    aggregator.flush(10_000)
    aggregator.add("tcp", retrans(A0, 2))
    assert shown(aggregator.flush(20_000)) == {RETRANS_A0: 7.0}


def test_a_dead_tasks_late_retransmit_does_not_bring_it_back(
    aggregator: Aggregator, living: Living
) -> None:
    aggregator.add("tcp", Watched(A0, (("tcp_retrans_total", ()),)))
    living.dead.add(A0)
    aggregator.flush(10_000)
    aggregator.flush(20_000)
    aggregator.add("tcp", retrans(A0, 2))
    assert shown(aggregator.flush(30_000)) == {'tcp_retrans_total{node="n1"}': 0.0}


def test_a_level_nobody_reports_any_more_goes_stale(aggregator: Aggregator) -> None:
    aggregator.add("torch", Level("comm_wait_ratio", A0, 0.25))
    ratio = 'comm_wait_ratio{node="n1", rank="0", task_id="a"}'
    assert shown(aggregator.flush(10_000)) == {ratio: 0.25}
    assert shown(aggregator.flush(20_000)) == {ratio: "stale"}
    assert shown(aggregator.flush(30_000)) == {}


def test_what_has_no_task_is_the_nodes_own(aggregator: Aggregator) -> None:
    aggregator.add("exec", Count("process_exec_total", None, 4))
    aggregator.add("gpu", Level("gpu_utilization", None, 3.0, (("gpu", "0"),)))
    assert set(shown(aggregator.flush(10_000))) == {
        'process_exec_total{node="n1"}',
        'gpu_utilization{gpu="0", node="n1"}',
    }


def test_consumed_counts_what_entered_and_not_what_was_dropped(aggregator: Aggregator) -> None:
    aggregator.max_events = 2
    for i in range(5):
        aggregator.add("tcp", Event("tcp_retransmit", i, A0, weight=1))
    aggregator.add("tcp", retrans(A0, 30))
    assert aggregator.consumed == {("tcp", "events"): 2, ("tcp", ""): 30}
    assert aggregator.dropped_events == {("tcp", "events"): 3}


def test_events_carry_their_owner_and_the_flush_they_came_with(aggregator: Aggregator) -> None:
    aggregator.add("tcp", Event("tcp_retransmit", 9_500, A1, (("sport", 80),)))
    (event,) = aggregator.flush(10_000).events
    assert (event.task_id, event.rank, event.pid, event.flush_ms) == ("a", "1", 2, 10_000)
    assert event.fields == (("sport", 80), ("sequence", 0))


def test_events_are_numbered_from_the_moment_the_probes_were_ready(aggregator: Aggregator) -> None:
    aggregator.add("tcp", Event("early", 9_000, None))
    aggregator.add("agent", Event(PROBES_READY, 9_500, None))
    aggregator.add("tcp", Event("first", 9_400, None))  # its clock was set back meanwhile
    (early, ready, first) = aggregator.flush(10_000).events
    aggregator.add("tcp", Event("second", 10_500, None))
    (second,) = aggregator.flush(20_000).events
    numbers = [dict(event.fields)["sequence"] for event in (early, ready, first, second)]
    assert numbers == [0, 0, 1, 2]


def test_the_number_of_series_is_bounded_and_refusals_are_counted() -> None:
    fold = Fold(Labels(), max_series=2)
    for i in range(5):
        fold.count(("t", str(i)), retrans(A0, 1))
    assert len(list(fold.flush())) == 2
    assert fold.refused == 3


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([A0, A1, B0]), st.integers(0, 50)), max_size=6),
        max_size=8,
    )
)
def test_stored_totals_equal_what_was_counted_however_it_was_chunked(
    intervals: list[list[tuple[Process, int]]],
) -> None:
    aggregator = Aggregator(Fold(Labels()), Directory(Living()))
    for t, interval in enumerate(intervals):
        for process, delta in interval:
            aggregator.add("tcp", retrans(process, delta))
        aggregator.flush(10_000 * (t + 1))
    last = shown(aggregator.flush(10_000 * (len(intervals) + 1)))
    total = sum(delta for interval in intervals for _, delta in interval)
    assert sum(float(value) for value in last.values()) == total
