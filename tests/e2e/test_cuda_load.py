"""20,000 launches and 500 synchronises a second on the compiled stand-in for CUDA.

Six seconds of it; STALLWATCH_CUDA_SECONDS=60 (`make cuda-minute`) for as long as one likes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine.readings import Level
from tests.probes.cuda.building import build
from tests.probes.cuda.driving import Driver, of, totals
from tests.probes.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.readings import Reading

pytestmark = pytest.mark.root

SECONDS = int(os.environ.get("STALLWATCH_CUDA_SECONDS", "6"))
LAUNCHES, SYNCHRONISES = 20_000, 500
LAUNCH = "cudaLaunchKernel"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(build(tmp_path))
    yield job
    job.end()


def run(job: Job, driver: Driver) -> list[Reading]:
    """The load, while the probe is polled and flushed as the agent does; what it emitted."""
    if driver.status.state == "off":
        pytest.skip(f"the cuda probe is off here: {driver.status.detail}")
    driver.attach()
    readings: list[Reading] = []
    job.begin("load", SECONDS, LAUNCHES, SYNCHRONISES, 1)
    for _ in range(SECONDS):
        driver.pass_(1.0)
        readings += driver.flush()
    job.read()
    return readings + driver.flush()


def test_counts_are_exact_where_nothing_is_watched_in_slices(job: Job) -> None:
    driver = Driver()
    try:
        readings = run(job, driver)
    finally:
        driver.probe.stop()
    calls = totals(readings, "cuda_calls_total", job.pid)
    assert calls[LAUNCH] == calls["cuLaunchKernel"] == SECONDS * LAUNCHES
    assert calls["cudaStreamSynchronize"] == SECONDS * SYNCHRONISES
    assert driver.consumed[""] >= 2 * SECONDS * (LAUNCHES + 2 * SYNCHRONISES)


@pytest.mark.skipif(SECONDS < 30, reason="cannot be tried here: a budget needs a minute to act")
def test_over_budget_the_count_is_within_its_exported_bound(job: Job) -> None:
    # Several times the default, so that a minute holds several slices on a slow machine too.
    driver = Driver(budget={"enabled": True, "ratio": 0.2})
    try:
        readings = run(job, driver)
    finally:
        driver.probe.stop()
    modes = {
        dict(each.labels)["mode"]
        for each in readings
        if isinstance(each, Level) and each.metric == "stallwatch_probe_mode"
        if dict(each.labels)["function"] == LAUNCH
    }
    assert "duty" in modes, modes
    told = totals(readings, "cuda_calls_total", job.pid)[LAUNCH]
    bounds = [
        each.value
        for each in readings
        if isinstance(each, Level) and each.metric == "cuda_calls_error_bound"
        if of(each, job.pid) and dict(each.labels)["call"] == LAUNCH
    ]
    assert bounds
    print(f"{told} of {SECONDS * LAUNCHES}, bound {bounds[-1]:.0f}")
    assert abs(told - SECONDS * LAUNCHES) <= bounds[-1]
