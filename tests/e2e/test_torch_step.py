"""The torch_step probe on a real two-rank PyTorch DDP job (Gloo, CPU).

Needs root and a Python that has torch: this one, or the one that STALLWATCH_TORCH_PYTHON names.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.readings import Count, Gone, Level, ProbeOptions, Reading, Watched
from probes.torch_step.probe import TorchStepProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="uprobes need root")]

WORKLOAD = Path(__file__).with_name("workloads") / "ddp.py"
# Flushes follow each other within moments here, so that a rate means nothing to a budget.
EXACT: dict[str, object] = {"budget": {"enabled": False}}
PEER_LOST = 3
FINALIZE = ("op", "finalize_backward")
ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def torch_python() -> str | None:
    named = os.environ.get("STALLWATCH_TORCH_PYTHON")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("torch") else None


class Job:
    """Two ranks of the workload."""

    def __init__(self, folder: Path, *options: str, prefix: tuple[str, ...] = ()) -> None:
        python = torch_python()
        if python is None:
            pytest.skip("no torch here (make e2e installs it; STALLWATCH_TORCH_PYTHON names one)")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.reports = [folder / f"rank{rank}-{port}.json" for rank in range(2)]
        self.ranks = []
        for rank, report in enumerate(self.reports):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "lo",
            }
            command = [*prefix, python, str(WORKLOAD), *options, "--report", str(report)]
            self.ranks.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))

    @property
    def running(self) -> bool:
        return any(rank.poll() is None for rank in self.ranks)

    def exits(self) -> list[int]:
        return [rank.wait(120) for rank in self.ranks]

    def report(self, rank: int) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.reports[rank].read_text())
        return facts

    def steps(self, rank: int) -> int:
        return int(self.report(rank)["steps"]) if self.reports[rank].exists() else 0

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


class Driver:
    """Does with the probe what the agent does, in this thread."""

    def __init__(self) -> None:
        self.probe = TorchStepProbe()
        self.readings: list[Reading] = []
        self.consumed = 0

    def start(self, settings: dict[str, object] = EXACT) -> None:
        status = self.probe.start(ProbeOptions(settings), self.emit)
        if status.state == "off":
            pytest.skip(f"torch_step is off here: {status.reason}: {status.detail}")

    def emit(self, reading: Reading) -> None:
        self.readings.append(reading)
        if isinstance(reading, Count) and not reading.stream:
            self.consumed += reading.weight

    def poll_until(self, done: Callable[[], bool], limit_seconds: float = 120) -> None:
        end = time.monotonic() + limit_seconds
        while not done():
            assert time.monotonic() < end, "the job took too long"
            self.probe.poll()
            time.sleep(0.25)
        self.probe.poll()

    def flush(self) -> list[Reading]:
        """Readings since the last flush."""
        self.probe.collect()
        readings, self.readings = self.readings, []
        return readings

    @property
    def produced(self) -> int:
        return dict(self.probe.produced().produced)[""]


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    driver.start()
    yield driver
    driver.probe.stop()


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def start(*options: str, prefix: tuple[str, ...] = ()) -> Job:
        jobs.append(Job(tmp_path, *options, prefix=prefix))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


def total(readings: list[Reading], metric: str, pid: int) -> float:
    return sum(
        each.delta
        for each in readings
        if isinstance(each, Count) and each.metric == metric and each.process
        if each.process.pid == pid
    )


def level(readings: list[Reading], metric: str, pid: int) -> float:
    (value,) = [
        each.value
        for each in readings
        if isinstance(each, Level) and each.metric == metric and each.process
        if each.process.pid == pid
    ]
    return value


def test_ddp_at_an_ordinary_pace_is_watched_all_the_time_within_the_default_budget(
    start_job: Callable[..., Job],
) -> None:
    driver = Driver()
    driver.start({})
    try:
        job = start_job("--steps", "60", "--pace", "0.1")
        modes: set[str] = set()
        while job.running:
            for _ in range(4):
                driver.probe.poll()
                time.sleep(0.5)
            told = [e for e in driver.flush() if isinstance(e, Level)]
            own = [e for e in told if e.metric == "stallwatch_probe_mode"]
            modes |= {dict(each.labels)["mode"] for each in own}
    finally:
        driver.probe.stop()
    assert job.exits() == [0, 0]
    assert modes == {"full"}


def test_steps_equal_the_scripts_own_count_for_a_job_started_after_the_probe(
    driver: Driver, start_job: Callable[..., Job]
) -> None:
    job = start_job("--steps", "150")
    driver.poll_until(lambda: not job.running)
    readings = driver.flush()
    assert job.exits() == [0, 0]
    for rank in range(2):
        facts = job.report(rank)
        assert total(readings, "steps_total", facts["pid"]) == facts["steps"] == 150
    watched = [each.process for each in readings if isinstance(each, Watched)]
    gone = {each.process.pid for each in readings if isinstance(each, Gone)}
    pids = {job.report(rank)["pid"] for rank in range(2)}
    # Others may run PyTorch on this machine too.
    assert pids <= {each.pid for each in watched}
    assert pids <= gone
    assert 2 * 150 * 2 <= driver.consumed <= driver.produced


def test_a_job_in_a_mount_namespace_with_a_linker_of_its_own_is_found(
    driver: Driver, start_job: Callable[..., Job], tmp_path: Path
) -> None:
    linker = Path("/lib64/ld-linux-x86-64.so.2")
    if not linker.exists():
        pytest.skip(f"no {linker}")
    copy = tmp_path / "ld.so"
    copy.write_bytes(linker.read_bytes())
    copy.chmod(0o755)
    script = f'mount --bind {copy} {linker.resolve()} && exec "$@"'
    job = start_job("--steps", "100", prefix=("unshare", "-m", "sh", "-c", script, "sh"))
    driver.poll_until(lambda: not job.running)
    readings = driver.flush()
    assert job.exits() == [0, 0]
    for rank in range(2):
        assert total(readings, "steps_total", job.report(rank)["pid"]) == 100


def test_a_rank_that_is_late_makes_the_other_wait_and_not_itself(
    driver: Driver, start_job: Callable[..., Job]
) -> None:
    waits = []
    for options in ((), ("--sleep-rank", "1", "--sleep-before-backward", "0.05")):
        job = start_job("--steps", "100", *options)
        driver.poll_until(lambda job=job: not job.running)  # type: ignore[misc]
        readings = driver.flush()
        assert job.exits() == [0, 0]
        pids = [job.report(rank)["pid"] for rank in range(2)]
        # Of the steps only: ranks also wait for one another while they start.
        steps = [each for each in readings if FINALIZE in getattr(each, "labels", ())]
        waits.append([total(steps, "comm_wait_seconds_total", pid) / 100 for pid in pids])
    growth = [late - clean for clean, late in zip(*waits, strict=True)]
    # 50 ms, and what a busy machine added to them.
    assert growth[0] == pytest.approx(job.report(1)["slept_seconds"] / 100, rel=0.15)
    assert growth[1] < 0.005


def test_a_stopped_rank_shows_as_a_wait_that_has_not_returned(
    driver: Driver, start_job: Callable[..., Job]
) -> None:
    job = start_job("--steps", "0")
    driver.poll_until(lambda: min(job.steps(0), job.steps(1)) >= 20)
    pids = [job.report(rank)["pid"] for rank in range(2)]
    driver.flush()
    os.kill(pids[1], signal.SIGSTOP)
    ratios = []
    for _ in range(2):
        end = time.monotonic() + 3
        driver.poll_until(lambda end=end: time.monotonic() > end)  # type: ignore[misc]
        ratios.append(level(driver.flush(), "comm_wait_ratio", pids[0]))
    os.kill(pids[1], signal.SIGCONT)
    assert 0.9 <= ratios[1] <= 1.0


def test_the_other_rank_of_a_killed_one_catches_its_exception_as_without_probes(
    start_job: Callable[..., Job],
) -> None:
    options = ("--steps", "100", "--die-rank", "1", "--die-at-step", "40")
    expected = [PEER_LOST, -signal.SIGKILL]
    without = start_job(*options).exits()
    driver = Driver()
    driver.start()
    job = start_job(*options)
    driver.poll_until(lambda: not job.running)
    produced = driver.produced
    driver.probe.stop()
    assert job.exits() == without == expected
    assert job.report(0)["error"].startswith("RuntimeError")
    assert produced > 2 * 40, "the job ran unprobed"


AGENT = """
import time
from engine.readings import ProbeOptions
from probes.torch_step.probe import TorchStepProbe
probe = TorchStepProbe()
print(probe.start(ProbeOptions(), lambda _: None).state, flush=True)
while True:
    probe.poll()
    probe.collect()
    if probe.produced().produced[0][1] > 50:
        print("counting", flush=True)
    time.sleep(0.05)
"""


def test_a_job_outlives_an_agent_that_is_killed_in_mid_step(start_job: Callable[..., Job]) -> None:
    agent = subprocess.Popen([sys.executable, "-c", AGENT], cwd=ROOT, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"attached\n"
    job = start_job("--steps", "300", "--sleep-rank", "1", "--sleep-before-backward", "0.01")
    assert agent.stdout.readline() == b"counting\n"
    agent.kill()
    agent.wait()
    agent.stdout.close()
    assert job.exits() == [0, 0]
    assert [job.steps(rank) for rank in range(2)] == [300, 300]
    driver = Driver()
    driver.start()
    driver.probe.stop()
    assert "stallwatch" not in Path("/sys/kernel/tracing/uprobe_events").read_text()


def test_a_process_that_was_there_before_the_probe_is_watched_from_the_start(
    start_job: Callable[..., Job],
) -> None:
    job = start_job("--steps", "0")
    deadline = time.monotonic() + 60
    while min(job.steps(0), job.steps(1)) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    driver = Driver()
    driver.start()
    before = driver.flush()
    time.sleep(1)
    readings = driver.flush()
    driver.probe.stop()
    pids = {job.report(rank)["pid"] for rank in range(2)}
    assert pids <= {each.process.pid for each in before if isinstance(each, Watched)}
    for pid in pids:
        assert total(readings, "steps_total", pid) > 0
        assert 0 < level(readings, "step_comm_wait_ratio", pid) <= 1
