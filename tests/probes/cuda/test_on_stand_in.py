"""The probe on the compiled stand-in: what a job did, and what the probe says that it did."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Event, Gone, Level, Watched
from probes.cuda.calls import CALLS, DRIVER, RUNTIME
from probes.functions.reporting import Reporting
from tests.probes.cuda.building import HASHED, build
from tests.probes.cuda.driving import Driver, held, of, slow, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.probes.job import Job

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20
root = pytest.mark.root


@pytest.fixture(scope="module")
def shared_driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.probe.stop()


@pytest.fixture
def driver(shared_driver: Driver) -> Driver:
    """One for all tests of this file: it takes a second or two to compile."""
    assert shared_driver.status.state != "off", shared_driver.status
    shared_driver.flush()
    return shared_driver


@pytest.fixture
def job(driver: Driver, start: Callable[..., Job]) -> Job:
    job = start()
    driver.attach()
    return job


@root
@pytest.mark.each_kernel
def test_every_function_is_counted_once_and_under_its_own_name(driver: Driver, job: Job) -> None:
    job.do("every", 3)
    readings = driver.flush()
    calls = totals(readings, "cuda_calls_total", job.pid)
    # These are called through a second name too: a twin, or one that means the same.
    twice = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMallocAsync", "cudaFreeAsync"}
    twice |= {"cudaMemcpy", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaMallocHost"}
    twice |= {"cudaFree", "cudaFreeHost"}
    for call in CALLS:
        if call.library == RUNTIME:
            assert calls[call.name] == (6 if call.name in twice else 3), call.name
    assert not totals(readings, "cuda_errors_total", job.pid)


@root
def test_what_the_runtime_asks_of_the_driver_has_the_drivers_names(
    driver: Driver, job: Job
) -> None:
    job.do("every", 1)
    calls = totals(driver.flush(), "cuda_calls_total", job.pid)
    assert calls["cudaMalloc"] == calls["cuMemAlloc"] == 1
    assert calls["cuStreamSynchronize"] == calls["cudaStreamSynchronize"] == 2
    assert calls["cuLaunchKernel"] == calls["cudaLaunchKernel"] == 2
    assert calls["cuLaunchKernelEx"] == calls["cudaLaunchKernelExC"] == 1


@root
@pytest.mark.each_kernel
def test_bytes_are_counted_by_direction(driver: Driver, job: Job) -> None:
    for kind in range(6):
        job.do("copies", 2, 1000 * (kind + 1), kind)
    job.do("every", 1)
    bytes_ = totals(driver.flush(), "cuda_bytes_total", job.pid)
    assert bytes_["cudaMemcpy h2h"] == 2 * 1000
    assert bytes_["cudaMemcpy h2d"] == 2 * 2000 + 4096
    assert bytes_["cudaMemcpy d2h"] == 2 * 3000 + 4096
    assert bytes_["cudaMemcpy d2d"] == 2 * 4000
    assert bytes_["cudaMemcpy default"] == 2 * 5000
    assert bytes_["cudaMemcpy unknown"] == 2 * 6000
    assert bytes_["cudaMemcpy2D h2d"] == bytes_["cudaMemcpy2DAsync d2h"] == 64 * 64
    assert bytes_["cudaMemcpyPeer peer"] == bytes_["cudaMemcpyPeerAsync peer"] == 4096
    assert bytes_["cuMemcpyHtoD h2d"] == 2 * 2000 + 4096 + 64 * 64
    assert bytes_["cuMemcpyDtoD d2d"] == 2 * 4000


@root
def test_a_job_with_the_runtime_inside_it_is_seen_at_the_driver(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(path=build(tmp_path, static=True))
    driver.attach()
    job.do("copies", 5, 4096, 1)
    job.do("driver", 2)
    calls = totals(driver.flush(), "cuda_calls_total", job.pid)
    assert not [name for name in calls if name.startswith("cuda")]
    assert calls["cuMemcpyHtoD"] == 5 + 2
    assert calls["cuLaunchKernel"] == 2 * 2
    assert calls["cuMemCreate"] == calls["cuMemRelease"] == 2


@root
def test_the_copy_of_the_runtime_that_pytorch_brings_along_is_found_by_its_hashed_name(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(path=build(tmp_path, runtime=HASHED))
    driver.attach()
    job.do("copies", 7, 1, 1)
    assert totals(driver.flush(), "cuda_calls_total", job.pid)["cudaMemcpy"] == 7


@root
def test_errors_are_counted_and_a_failed_allocation_holds_nothing(driver: Driver, job: Job) -> None:
    job.do("fail", 4)
    readings = driver.flush()
    errors = totals(readings, "cuda_errors_total", job.pid)
    assert errors["cudaMalloc"] == errors["cuMemAlloc"] == 4
    assert totals(readings, "cuda_calls_total", job.pid)["cudaMalloc"] == 4
    assert not held(readings, job.pid)


@root
def test_a_synchronise_lies_in_the_bucket_of_its_duration(driver: Driver, job: Job) -> None:
    job.do("sync", 20, 2000)
    readings = driver.flush()
    buckets = totals(readings, "cuda_call_seconds_bucket", job.pid)
    name = "cudaStreamSynchronize"
    assert buckets[f"{name} 0.0009765625"] == 0
    assert buckets[f"{name} +Inf"] == 20
    assert totals(readings, "cuda_call_seconds_count", job.pid)[name] == 20


@root
def test_a_slow_call_is_an_event_with_its_duration_direction_and_bytes(
    driver: Driver, job: Job
) -> None:
    job.do("slow_copy", 150_000, 3 * MIB, 2)
    job.do("sync", 1, 120_000)
    job.do("sync", 10, 1000)
    events = [each for each in slow(driver.flush(), job.pid) if str(each["call"])[:4] == "cuda"]
    copy, synchronise = events
    assert 0.15 <= copy.pop("seconds") < 5  # type: ignore[operator]
    assert copy == {
        "comm": "job",
        "lib": "cuda",
        "call": "cudaMemcpy",
        "tid": job.pid,
        "failed": 0,
        "direction": "d2h",
        "bytes": 3 * MIB,
    }
    assert synchronise["call"] == "cudaStreamSynchronize"
    assert "bytes" not in synchronise


@root
@pytest.mark.each_kernel
def test_memory_grows_with_a_leak_and_is_given_back_by_a_free(driver: Driver, job: Job) -> None:
    for round_ in (1, 2, 3):
        job.do("malloc", 10, MIB)
        assert held(driver.flush(), job.pid) == {"device": round_ * 10 * MIB}
    job.do("free", 25)
    assert held(driver.flush(), job.pid) == {"device": 5 * MIB}
    job.do("churn", 1000, MIB)
    assert held(driver.flush(), job.pid) == {"device": 5 * MIB}
    assert held(driver.flush(), job.pid) == {"device": 5 * MIB}


@root
def test_kinds_of_memory_are_told_apart(driver: Driver, job: Job) -> None:
    job.do("malloc", 1, MIB)
    job.do("pool", 2, MIB)
    job.do("host", 3, MIB)
    assert held(driver.flush(), job.pid) == {"device": MIB, "pool": 2 * MIB, "host": 3 * MIB}


@root
def test_what_was_allocated_before_the_probe_came_is_unknown_and_freeing_it_takes_nothing_away(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(path=build(tmp_path))  # of a library that nobody else has mapped
    job.do("malloc", 5, MIB)
    driver.attach()
    job.do("malloc", 2, MIB)
    job.do("free", 4)
    assert held(driver.flush(), job.pid) == {"device": 0}


@root
def test_a_forked_process_has_its_own_counts_and_holds_nothing_of_its_parents(
    driver: Driver, job: Job
) -> None:
    job.do("malloc", 1, MIB)
    child = int(job.do("fork", 7).split()[0])
    readings = driver.flush()
    assert totals(readings, "cuda_calls_total", child)["cudaStreamSynchronize"] == 7
    assert totals(readings, "cuda_calls_total", job.pid)["cudaStreamSynchronize"] == 0
    assert held(readings, child) == {"device": 10 * MIB}
    assert held(readings, job.pid) == {"device": MIB}
    watched = {each.process.pid for each in readings if isinstance(each, Watched)}
    assert child in watched


@root
def test_a_process_that_runs_another_program_holds_nothing_any_more(
    driver: Driver, job: Job
) -> None:
    job.do("malloc", 3, MIB)
    driver.flush()
    assert job.do("exec") == str(job.pid)
    driver.attach()
    job.do("copies", 2, 1, 1)
    readings = driver.flush()
    assert held(readings, job.pid) in ({}, {"device": 0})
    assert totals(readings, "cuda_calls_total", job.pid)["cudaMemcpy"] == 2
    job.do("malloc", 1, MIB)
    assert held(driver.flush(), job.pid) == {"device": MIB}


@root
def test_what_a_process_did_last_is_told_before_it_is_gone_and_nothing_of_it_stays(
    driver: Driver, job: Job
) -> None:
    job.do("malloc", 100, MIB)
    job.do("copies", 5, 1, 1)
    job.end()
    readings = driver.flush()
    assert totals(readings, "cuda_calls_total", job.pid)["cudaMemcpy"] == 5
    own = [each for each in readings if each.process and each.process.pid == job.pid]
    assert isinstance(own[-1], Gone)
    driver.flush()
    assert isinstance(driver.probe.running, Reporting)
    bpf = driver.probe.running.followed.bpf
    tgid = job.pid.to_bytes(4, sys.byteorder)
    for name in ("allocations", "held", "call_totals"):
        assert not [key for key in bpf.map(name).keys() if key[8:12] == tgid], name  # noqa: SIM118


@root
def test_calls_of_many_threads_are_all_counted(driver: Driver, job: Job) -> None:
    job.do("threads", 16, 25)
    calls = totals(driver.flush(), "cuda_calls_total", job.pid)
    assert calls["cudaStreamSynchronize"] == calls["cuStreamSynchronize"] == 16 * 25


@root
def test_a_load_of_launches_and_synchronises_is_counted_exactly(driver: Driver, job: Job) -> None:
    job.do("load", 2, 20_000, 500, 1)
    calls = totals(driver.flush(), "cuda_calls_total", job.pid)
    assert calls["cudaLaunchKernel"] == calls["cuLaunchKernel"] == 2 * 20_000
    assert calls["cudaStreamSynchronize"] == 2 * 500


@root
@pytest.mark.each_kernel
def test_every_trap_and_every_change_of_memory_is_told_with_its_weight_once(
    driver: Driver, job: Job
) -> None:
    job.do("every", 20)
    job.do("threads", 4, 10)
    job.do("sync", 1, 110_000)
    job.do("malloc", 50, MIB)
    job.end()
    readings = driver.flush() + driver.flush()
    weights: Counter[str] = Counter()
    for each in readings:
        if isinstance(each, Count | Level | Event) and of(each, job.pid):
            weights[each.stream] += each.weight
    calls = totals(readings, "cuda_calls_total", job.pid)
    assert weights[""] == sum(calls[call.name] * (1 + call.timed) for call in CALLS)
    assert weights["events"] == len(slow(readings, job.pid)) >= 2
    assert weights["memory"] == 20 * 12 + 50
    # Others may use CUDA here meanwhile, so of the whole only an order is known.
    assert all(count <= driver.produced[stream] for stream, count in driver.consumed.items())
    assert not any(driver.lost.values())


@root
def test_allocations_that_do_not_fit_are_counted_as_lost(start: Callable[..., Job]) -> None:
    job = start()
    driver = Driver(allocations_limit=16, driver=False)
    try:
        driver.attach()
        job.do("malloc", 20, MIB)
        readings = driver.flush()
        lost = driver.lost["memory", "allocations_full"]
        assert lost > 0
        assert held(readings, job.pid) == {"device": (20 - lost) * MIB}
        assert driver.consumed["memory"] + lost == driver.produced["memory"]
        calls = totals(readings, "cuda_calls_total", job.pid)
        assert calls["cudaMalloc"] == 20
        assert not [call for call in CALLS if call.library == DRIVER and calls[call.name]]
    finally:
        driver.probe.stop()
