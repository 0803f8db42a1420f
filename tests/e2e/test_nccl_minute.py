"""A minute of 50 collectives a second in four threads: exact, and within a bound in slices."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Level
from probes.budget.shares import LEAST_CORES
from probes.budget.traps import current_costs
from probes.nccl.abi import OPERATIONS
from tests.probes.job import Job
from tests.probes.nccl.building import build
from tests.probes.nccl.driving import Driver

if TYPE_CHECKING:
    from pathlib import Path

SECONDS, RATE, THREADS = 60, 50, 4


def counted(driver: Driver, pid: int, metric: str, since: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in driver.all[since:]:
        if not isinstance(each, Count) or each.metric != metric:
            continue
        if each.process is not None and each.process.pid == pid:
            found[dict(each.labels)["op"]] += round(each.delta)
    return found


def expected() -> tuple[Counter[str], Counter[str]]:
    """Calls and bytes by operation of the job's `load`."""
    calls: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for i in range(SECONDS * RATE):
        calls[OPERATIONS[i % 10]] += THREADS
        sizes[OPERATIONS[i % 10]] += THREADS * (256 << i % 7) * 4
    return calls, sizes


def load(job: Job, drivers: tuple[Driver, ...]) -> None:
    """Run it, with polls twice a second and a flush every other second, as an agent would."""
    job.begin("load", SECONDS, RATE, THREADS)
    for turn in range(SECONDS * 2):
        for driver in drivers:
            driver.probe.poll()
            if turn % 4 == 3:
                driver.readings.clear()
                driver.probe.collect()
        time.sleep(0.5)
    job.read()
    for driver in drivers:
        driver.flush()


def tight(driver: Driver) -> float:
    """A budget that the operations exceed four times on this machine."""
    assert driver.status.state != "off", driver.status
    codes = driver.running.sites.trap_codes("ncclAllReduce")
    wanted = RATE * THREADS * current_costs().mean(codes) / LEAST_CORES
    return wanted / 4


@pytest.mark.root
def test_a_minute_of_collectives_is_exact_and_in_slices_within_the_bound(tmp_path: Path) -> None:
    job = Job(build(tmp_path))
    exact = Driver(budget={"enabled": False})
    drivers = [exact]
    try:
        exact.attach()
        sliced = Driver(budget={"ratio": tight(exact), "slice": "1s", "longest_period": "10s"})
        sliced.attach()
        drivers.append(sliced)
        for slot in range(4):
            job.do("init", slot, slot, 8, slot)
        marks = [len(driver.all) for driver in (exact, sliced)]
        load(job, (exact, sliced))
        calls, sizes = expected()
        assert counted(exact, job.pid, "nccl_calls_total", marks[0]) == calls
        assert counted(exact, job.pid, "nccl_bytes_total", marks[0]) == sizes
        assert not any(count for _, count in exact.probe.produced().lost)
        estimates = counted(sliced, job.pid, "nccl_calls_total", marks[1])
        bounds = {
            dict(each.labels)["op"]: each.value
            for each in sliced.readings
            if isinstance(each, Level)
            and each.metric == "nccl_calls_error_bound"
            and each.process is not None
            and each.process.pid == job.pid
        }
        # Operations were in slices, not all was seen, and each is as far off as it says at most.
        assert bounds
        views = sliced.running.settlement.maps.read().views.values()
        seen = sum(v.process.enqueued for v in views if v.process.tgid == job.pid)
        assert seen < sum(calls.values())
        for op, count in calls.items():
            assert abs(estimates[op] - count) <= bounds.get(op, 0.0) + 1, (op, estimates, bounds)
    finally:
        job.end()
        for driver in drivers:
            driver.probe.stop()
