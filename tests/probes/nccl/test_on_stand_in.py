"""The probe on a compiled stand-in for NCCL that knows how often it was called."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Gone, Level, Told, Watched
from probes.nccl.abi import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.probes.job import Job
    from tests.probes.nccl.driving import Driver

ROOT = Path(__file__).resolve().parents[3]
FLOAT, HALF = 7, 6


def expected(seconds: int, rate: int, threads: int) -> tuple[Counter[str], Counter[str]]:
    """Calls and bytes by operation of the job's `load`."""
    calls: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for i in range(seconds * rate):
        calls[OPERATIONS[i % 10]] += threads
        sizes[OPERATIONS[i % 10]] += threads * (256 << i % 7) * 4
    return calls, sizes


@pytest.mark.each_kernel
@pytest.mark.root
def test_every_call_of_every_operation_is_counted_with_its_bytes(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    watched = [each for each in driver.flush() if isinstance(each, Watched)]
    assert job.pid in [each.process.pid for each in watched]
    for slot in range(4):
        job.do("init", slot, 3, 8, slot)
    job.do("load", 2, 50, 6)
    driver.flush()
    calls, sizes = expected(2, 50, 6)
    for op in OPERATIONS:
        assert driver.total("nccl_calls_total", job.pid, op=op) == calls[op]
        assert driver.total("nccl_bytes_total", job.pid, op=op) == sizes[op]
    assert driver.total("nccl_communicator_calls_total", job.pid) == sum(calls.values())
    assert driver.level("nccl_communicators", job.pid) == [4]


@pytest.mark.root
def test_messages_are_put_into_classes_by_their_size(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 0, 2, 1)
    job.do("call", 0, 64, FLOAT, 3)  # 256 bytes
    job.do("call", 0, 65, FLOAT, 2)
    job.do("call", 0, 1 << 30, HALF, 1)
    driver.flush()

    def below(bound: str) -> float:
        return driver.total("nccl_message_bytes_bucket", job.pid, op="AllReduce", le=bound)

    assert [below("256.0"), below("1024.0"), below(str(2.0**28)), below(str(2.0**32))] == [
        3,
        5,
        5,
        6,
    ]
    assert below("+Inf") == driver.total("nccl_message_bytes_count", job.pid) == 6
    assert driver.total("nccl_message_bytes_sum", job.pid) == 3 * 256 + 2 * 260 + (2 << 30)


@pytest.mark.root
@pytest.mark.parametrize(("dtype", "size"), [*enumerate((1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1))])
def test_an_element_has_the_size_of_its_type(
    driver: Driver, start: Callable[..., Job], dtype: int, size: int
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 0, 2, 1)
    job.do("every", 0, 1000, dtype)
    driver.flush()
    # Ten operations, ncclBcast (which is a Broadcast) and ncclAllReduceConfig.
    assert driver.total("nccl_calls_total", job.pid) == 12
    assert driver.total("nccl_calls_total", job.pid, op="Broadcast") == 2
    assert driver.total("nccl_calls_total", job.pid, op="AllReduce") == 2
    assert driver.total("nccl_bytes_total", job.pid) == 12 * 1000 * size


@pytest.mark.root
def test_a_communicator_has_one_name_on_all_its_ranks(
    driver: Driver, start: Callable[..., Job]
) -> None:
    first, second = start(), start()
    driver.flush()
    for rank, job in enumerate((first, second)):
        job.do("init_config", 0, rank, 2, 77)
        job.do("scalable", 1, rank, 2, 78)
        job.do("split", 0, 2, 5)
        job.do("split", 0, 3, 5)
        job.do("split", 0, 4, rank)
        for slot in range(5):
            job.do("call", slot, 1, FLOAT, 1)
    driver.flush()
    names = [
        {
            dict(each.labels)["communicator"]: dict(each.labels)["comm_rank"]
            for each in driver.readings
            if isinstance(each, Level)
            and each.metric == "nccl_communicator_info"
            and each.process is not None
            and each.process.pid == job.pid
        }
        for job in (first, second)
    ]
    assert len(names[0]) == len(names[1]) == 5
    # The two that were split by rank are apart.
    assert len(names[0].keys() & names[1].keys()) == 4
    told = {
        each.process.pid: (each.rank, each.size) for each in driver.all if isinstance(each, Told)
    }
    assert [told[first.pid], told[second.pid]] == [(0, 2), (1, 2)]


@pytest.mark.root
def test_the_rank_is_that_of_the_largest_communicator_and_not_of_what_was_split_off(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 1, 2, 1)
    job.do("init", 1, 5, 8, 2)
    job.do("init", 2, 0, 8, 3)
    job.do("split", 1, 3, 0)
    driver.flush()
    told = [each for each in driver.all if isinstance(each, Told) and each.process.pid == job.pid]
    assert [(each.rank, each.size) for each in told] == [(5, 8)]


@pytest.mark.root
def test_communicators_of_one_process_tell_nothing_of_its_rank(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("all", 0, 4)
    job.do("together", 10, 3, 9)
    driver.flush()
    assert driver.level("nccl_communicators", job.pid) == [7]
    assert driver.total("nccl_init_seconds_count", job.pid, call="CommInitAll") == 1
    assert driver.total("nccl_init_seconds_count", job.pid, call="CommInitRank") == 3
    assert not [e for e in driver.all if isinstance(e, Told) and e.process.pid == job.pid]


@pytest.mark.root
def test_what_a_communicator_says_of_itself_is_believed(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 3, 8, 1)
    job.do("split", 0, 1, 2)
    job.do("shrink", 0, 2, 3)
    driver.flush()
    assert driver.level("nccl_communicator_info", job.pid, nranks="5") == [1]
    job.do("ask", 1)
    driver.flush()
    info = driver.level("nccl_communicator_info", job.pid, nranks="4", comm_rank="1")
    assert info == [1]


@pytest.mark.root
def test_a_slow_initialisation_is_an_event_with_its_duration(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 1, 4, 1)
    job.do("init_us", 150_000)
    job.do("init_config", 1, 1, 4, 2)
    job.do("together", 2, 2, 3)
    driver.flush()
    events = driver.events(job.pid)
    assert [kind for kind, _ in events] == ["nccl_init"] * 3
    assert all(0.15 <= float(str(fields["seconds"])) < 10 for _, fields in events)
    assert events[0][1]["call"] == "ncclCommInitRankConfig"
    assert (events[0][1]["comm_rank"], events[0][1]["nranks"]) == (1, 4)
    assert driver.total("nccl_init_seconds_count", job.pid) == 4
    assert driver.total("nccl_init_seconds_sum", job.pid) > 3 * 0.15
    assert driver.total("nccl_init_seconds_bucket", job.pid, le="0.0625") <= 1


@pytest.mark.root
def test_a_failed_initialisation_is_counted_by_its_result_and_is_an_event(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("result", 6)
    job.do("init", 0, 1, 4, 1)
    job.do("together", 2, 2, 3)
    job.do("result", 0)
    job.do("init", 1, 9, 4, 1)
    driver.flush()
    assert driver.total("nccl_errors_total", job.pid, result="ncclRemoteError") == 3
    assert driver.total("nccl_errors_total", job.pid, op="CommInitRank") == 4
    assert driver.total("nccl_errors_total", job.pid, result="ncclInvalidArgument") == 1
    assert [kind for kind, _ in driver.events(job.pid)] == ["nccl_init_failed"] * 4
    assert driver.level("nccl_communicators", job.pid) == [0]
    assert driver.total("nccl_init_seconds_count", job.pid) == 0


@pytest.mark.root
def test_a_non_blocking_initialisation_lasts_until_the_communicator_is_ready_and_is_no_failure(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("nonblocking", 0, 1, 2, 80)
    driver.flush()
    assert driver.total("nccl_errors_total", job.pid) == 0
    assert driver.total("nccl_init_seconds_count", job.pid) == 1
    assert driver.total("nccl_init_seconds_sum", job.pid) > 0.08


@pytest.mark.root
def test_an_initialisation_that_does_not_return_is_seen_while_it_lasts(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 1, 2, 1)
    driver.flush()
    assert driver.level("nccl_init_open_seconds", job.pid) == []
    job.do("hang_init")
    time.sleep(0.3)
    driver.flush()
    (seconds,) = driver.level("nccl_init_open_seconds", job.pid)
    assert 0.3 < seconds < 60


@pytest.mark.root
def test_an_error_that_a_watchdog_finds_again_and_again_is_one_error(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 1, 2, 1)
    job.do("watch", 0, 20)
    job.do("async", 0, 6)
    job.do("watch", 0, 20)
    driver.flush()
    assert driver.total("nccl_errors_total", job.pid) == 1
    ((kind, fields),) = driver.events(job.pid)
    assert (kind, fields["result"]) == ("nccl_async_error", "ncclRemoteError")


@pytest.mark.root
def test_failed_calls_are_counted_all_and_told_of_up_to_a_limit(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 1, 2, 1)
    job.do("result", 5)
    job.do("call", 0, 10, FLOAT, 20)
    job.do("group", 0, 10, FLOAT, 1)
    driver.flush()
    labels = {"op": "AllReduce", "result": "ncclInvalidUsage"}
    assert driver.total("nccl_errors_total", job.pid, **labels) == 20
    assert driver.total("nccl_errors_total", job.pid, op="GroupEnd") == 1
    assert len(driver.events(job.pid)) == 6
    assert driver.total("nccl_calls_total", job.pid) == 22


@pytest.mark.root
def test_ends_of_communicators_are_counted_and_events(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    for slot in range(3):
        job.do("init", slot, 1, 2, slot)
    job.do("finalize", 0)
    job.do("destroy", 0)
    job.do("revoke", 1)
    job.do("abort", 1)
    driver.flush()
    for how in ("finalize", "destroy", "revoke", "abort"):
        assert driver.total("nccl_communicator_ends_total", job.pid, how=how) == 1
    kinds = [kind for kind, _ in driver.events(job.pid)]
    assert kinds == ["nccl_finalize", "nccl_destroy", "nccl_revoke", "nccl_abort"]
    assert driver.level("nccl_communicators", job.pid) == [1]


@pytest.mark.each_kernel
@pytest.mark.root
def test_all_that_the_kernel_produced_is_consumed_exactly_once(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    early = dict(driver.probe.produced().produced)
    driver.flush()
    late = dict(driver.probe.produced().produced)
    seen = len(driver.all)
    for slot in range(4):
        job.do("init", slot, 1, 2, slot)
    job.do("load", 1, 100, 4)
    job.do("sync", 100)
    job.do("abort", 0)
    driver.flush()
    job.end()
    driver.probe.poll()
    least = dict(driver.probe.produced().produced)
    driver.flush()
    after = driver.probe.produced()
    consumed: Counter[str] = Counter()
    for each in driver.all[seen:]:
        consumed[getattr(each, "stream", "")] += getattr(each, "weight", 0)
    # Equal when nobody else uses NCCL on this machine meanwhile.
    # Initialisations count at their end: four, a synchronise twice, an abort once.
    for stream, own in (("", 400 + 7), ("events", 5), ("sequence", 400)):
        most = dict(after.produced)[stream] - early[stream]
        assert own <= least[stream] - late[stream] <= consumed[stream] <= most
    assert not any(count for _, count in after.lost)


@pytest.mark.root
def test_a_forked_process_is_counted_for_itself_and_what_ended_is_forgotten(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = start()
    driver.flush()
    job.do("init", 0, 1, 2, 1)
    child = int(job.do("fork", 0, 7).split()[0])
    try:
        driver.flush()
        assert driver.total("nccl_calls_total", child, op="AllReduce") == 7
        assert driver.total("nccl_calls_total", job.pid) == 0
    finally:
        os.kill(child, signal.SIGKILL)
    job.do("call", 0, 1, FLOAT, 5)
    job.end()
    time.sleep(0.1)
    readings = driver.flush()
    assert driver.total("nccl_calls_total", job.pid) == 5
    assert job.pid in [each.process.pid for each in readings if isinstance(each, Gone)]
    driver.flush()
    for view in driver.running.settlement.maps.read().views.values():
        assert view.process.tgid not in (job.pid, child)
