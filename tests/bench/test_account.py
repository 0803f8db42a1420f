"""What is charged to a job: pure parts. The measurement itself needs root and PyTorch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.account import (
    KPROBE,
    RAW_TRACEPOINT,
    TRACEPOINT,
    Taken,
    TrapSeconds,
    interval,
    programs,
)
from probes.bpf.loader import ProgramType, load
from probes.bpf.syscall import ProgramRuns, enable_statistics
from probes.torch_step.probe import SOURCE

TRAPS = TrapSeconds(entry=1e-6, exit=5e-6)


@pytest.mark.parametrize(
    ("kind", "name", "seconds"),
    [
        (KPROBE, "enter_wait", 1e-6),
        (KPROBE, "mark_wait", 1e-6),
        (KPROBE, "leave_wait", 5e-6),
        # Nobody says what this one sits at, so it is charged with the dearest.
        (KPROBE, "observe", 5e-6),
        (TRACEPOINT, "on_send", 1e-6),
    ],
)
def test_what_comes_before_a_program_is_charged_with_it(
    kind: int, name: str, seconds: float
) -> None:
    assert TRAPS.before(ProgramRuns(kind, name, 0.0, 1)) == seconds


def test_the_share_is_of_the_jobs_own_cpu_time() -> None:
    taken = Taken({KPROBE: 10}, {KPROBE: 0.02, TRACEPOINT: 0.01}, steps=5, cpu_seconds=10.0)
    assert taken.share == pytest.approx(0.003)


def test_the_interval_is_students() -> None:
    mean, low, high = interval([0.01, 0.02, 0.03])
    # t(2 degrees of freedom, 0.975) = 4.303, standard error 0.01/sqrt(3)
    assert mean == pytest.approx(0.02)
    assert high - mean == pytest.approx(4.303 * 0.01 / 3**0.5, rel=1e-3)
    assert mean - low == pytest.approx(high - mean)


def test_a_process_without_programs_holds_none() -> None:
    assert Path("/proc/self/fdinfo").is_dir()
    assert programs(os.getpid()) == {}


@pytest.mark.root
def test_the_kernel_tells_how_often_a_program_ran_and_for_how_long() -> None:
    statistics = enable_statistics()
    bpf = load(SOURCE, {"on_exit": ProgramType.RAW_TRACEPOINT})
    try:
        bpf.attach_raw_tracepoint("on_exit", "sched_process_exit")
        before = {each.name: each for each in programs(os.getpid()).values()}["on_exit"]
        for _ in range(20):
            subprocess.run(["true"], check=True)
        after = {each.name: each for each in programs(os.getpid()).values()}["on_exit"]
    finally:
        bpf.close()
        os.close(statistics)
    assert after.kind == RAW_TRACEPOINT
    assert after.runs - before.runs >= 20
    assert after.seconds > before.seconds
