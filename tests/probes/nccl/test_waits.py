"""What counts as waiting for communication, on the stand-ins for NCCL and CUDA."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.probes.job import Job
    from tests.probes.nccl.driving import Driver

FLOAT = 7
MS = 1000


def begin(driver: Driver, start: Callable[..., Job], **environment: str) -> Job:
    job = start(**environment)
    driver.flush()
    job.do("init", 0, 0, 2, 1)
    return job


def waited(driver: Driver, job: Job, **labels: str) -> float:
    return driver.total("comm_wait_seconds_total", job.pid, **labels)


def do_timed(job: Job, word: str, *numbers: int) -> float:
    """How long the job took: no wait in it can be longer."""
    began = time.monotonic()
    job.do(word, *numbers)
    return time.monotonic() - began


@pytest.mark.each_kernel
@pytest.mark.root
@pytest.mark.parametrize("word", ["sync", "other_sync", "device_sync", "driver_sync"])
def test_a_synchronise_after_a_collective_is_a_wait_whoever_makes_it(
    driver: Driver, start: Callable[..., Job], word: str
) -> None:
    job = begin(driver, start)
    job.do("call", 0, 10, FLOAT, 1)
    took = do_timed(job, word, 200 * MS)
    driver.flush()
    assert 0.2 <= waited(driver, job, lib="nccl", op="AllReduce") <= took
    (ratio,) = driver.level("comm_wait_ratio", job.pid)
    assert 0 < ratio <= 1
    source = driver.level("stallwatch_probe_source", job.pid, source="synchronise")
    assert source == [1]


@pytest.mark.root
def test_a_synchronise_without_a_collective_before_it_is_none(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = begin(driver, start)
    job.do("sync", 50 * MS)
    driver.flush()
    assert waited(driver, job) == 0
    assert driver.level("comm_wait_ratio", job.pid) == []
    job.do("call", 0, 10, FLOAT, 3)
    took = do_timed(job, "sync", 50 * MS)
    # All three are done by then, so that this thread waits for none of them again.
    job.do("sync", 200 * MS)
    driver.flush()
    assert 0.05 <= waited(driver, job) <= took
    driver.flush()
    assert driver.level("comm_wait_ratio", job.pid) == [0]


@pytest.mark.root
def test_threads_that_wait_at_the_same_time_wait_once(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = begin(driver, start)
    took = do_timed(job, "threads_sync", 16, 300 * MS)
    driver.flush()
    assert 0.3 <= waited(driver, job) <= took
    (ratio,) = driver.level("comm_wait_ratio", job.pid)
    assert ratio <= 1


@pytest.mark.root
def test_a_hang_is_a_ratio_of_one_at_every_flush_and_the_rank_that_does_not_wait_has_none(
    driver: Driver, start: Callable[..., Job]
) -> None:
    waiting, guilty = begin(driver, start), begin(driver, start)
    waiting.do("call", 0, 10, FLOAT, 1)
    guilty.do("call", 0, 10, FLOAT, 1)
    waiting.do("hang")
    driver.flush()
    for _ in range(2):
        time.sleep(0.3)
        driver.flush()
        (ratio,) = driver.level("comm_wait_ratio", waiting.pid)
        assert 0.9 <= ratio <= 1
        assert driver.level("comm_wait_ratio", guilty.pid) == [0]


@pytest.mark.root
def test_a_wait_that_a_killed_process_was_in_ends_with_it(
    driver: Driver, start: Callable[..., Job]
) -> None:
    job = begin(driver, start)
    job.do("call", 0, 10, FLOAT, 1)
    job.do("hang")
    time.sleep(0.2)
    driver.flush()
    job.end()
    time.sleep(0.1)
    driver.flush()
    before = waited(driver, job)
    assert before > 0.2
    driver.flush()
    assert waited(driver, job) == before
    assert not driver.level("comm_wait_ratio", job.pid)
