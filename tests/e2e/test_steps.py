"""What marks a step of a real PyTorch job, and that watching it does no harm.

Needs root and a Python that has torch: this one, or the one that STALLWATCH_TORCH_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.readings import Count, Level, ProbeOptions, Reading, Told
from probes.gloo.probe import GlooProbe
from probes.torch_step.probe import TorchStepProbe
from tests.e2e.agent import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PYTHON = os.environ.get("STALLWATCH_TORCH_PYTHON", sys.executable)
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes need root"),
    pytest.mark.skipif(
        sys.executable == PYTHON and importlib.util.find_spec("torch") is None,
        reason="PyTorch is missing (make e2e; STALLWATCH_TORCH_PYTHON names a Python that has it)",
    ),
]
WORKLOADS = Path(__file__).with_name("workloads")
# Flushes follow each other within moments here, so that a rate means nothing to a budget.
EXACT: dict[str, object] = {"budget": {"enabled": False}}
PEER_LOST = 3


class Job:
    """One process, or two ranks."""

    def __init__(self, script: str, *options: str, ranks: int = 1) -> None:
        port = str(free_port())
        self.ranks = []
        for rank in range(ranks):
            own = {"RANK": str(rank), "WORLD_SIZE": str(ranks)} if ranks > 1 else {}
            environment = {
                **os.environ,
                **own,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "GLOO_SOCKET_IFNAME": "lo",
                "OMP_NUM_THREADS": "1",
            }
            named = [option.replace("RANK", str(rank)) for option in options]
            command = [PYTHON, str(WORKLOADS / script), *named]
            self.ranks.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))

    @property
    def running(self) -> bool:
        return any(rank.poll() is None for rank in self.ranks)

    def exits(self) -> list[int]:
        return [rank.wait(120) for rank in self.ranks]

    def end(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


class Driver:
    """Does with both probes what the agent does, in this thread."""

    def __init__(self) -> None:
        self.probes = (TorchStepProbe(), GlooProbe())
        self.readings: list[Reading] = []

    def start(self) -> None:
        for probe in self.probes:
            status = probe.start(ProbeOptions(EXACT), self.readings.append)
            assert status.state != "off", status

    def poll(self) -> None:
        for probe in self.probes:
            probe.poll()

    def collect(self) -> None:
        for probe in self.probes:
            probe.collect()

    def follow(self, job: Job, beside: Callable[[], object] = lambda: None) -> list[int]:
        end = time.monotonic() + 120
        while job.running:
            assert time.monotonic() < end, "the job took too long"
            self.poll()
            self.collect()
            beside()
            time.sleep(0.2)
        self.poll()
        self.collect()
        return job.exits()

    def stop(self) -> None:
        for probe in self.probes:
            probe.stop()

    def total(self, metric: str, pid: int, op: str = "") -> float:
        own = [each for each in self.readings if isinstance(each, Count) and each.process]
        return sum(
            each.delta
            for each in own
            if each.metric == metric and each.process and each.process.pid == pid
            if not op or dict(each.labels).get("op") == op
        )

    def levels(self, metric: str, pid: int) -> list[Level]:
        own = [each for each in self.readings if isinstance(each, Level) and each.process]
        return [e for e in own if e.metric == metric and e.process and e.process.pid == pid]


@pytest.fixture(scope="module")
def running() -> Iterator[Driver]:
    driver = Driver()
    driver.start()
    yield driver
    driver.stop()


@pytest.fixture
def driver(running: Driver) -> Driver:
    running.poll()
    running.collect()
    running.readings.clear()
    return running


@pytest.fixture
def start() -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def run(script: str, *options: str, ranks: int = 1) -> Job:
        jobs.append(Job(script, *options, ranks=ranks))
        return jobs[-1]

    yield run
    for job in jobs:
        job.end()


def facts(folder: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{rank}.json").read_text())
    return found


@pytest.mark.parametrize(
    ("kind", "ranks", "source"),
    [
        ("plain", 1, "optimizer"),
        ("accumulate", 1, "optimizer"),
        ("marked", 1, "marker"),
        ("fsdp1", 2, "optimizer"),
        ("fsdp2", 2, "optimizer"),
    ],
)
def test_steps_passes_and_optimizer_steps_are_those_that_the_job_counted(
    driver: Driver, start: Callable[..., Job], tmp_path: Path, kind: str, ranks: int, source: str
) -> None:
    job = start("steps.py", kind, "40", f"{tmp_path}/RANK.json", ranks=ranks)
    assert driver.follow(job) == [0] * ranks
    for rank in range(ranks):
        own = facts(tmp_path, rank)
        pid = own["pid"]
        assert driver.total("steps_total", pid) == own["steps"] == 40
        assert driver.total("backward_passes_total", pid) == own["backwards"]
        assert driver.total("optimizer_steps_total", pid) == own["optimizer_steps"]
        assert {dict(e.labels)["source"] for e in driver.levels("step_source", pid)} == {source}
        waited = driver.total("comm_wait_seconds_total", pid, "wait")
        assert waited > 0 if ranks > 1 else waited == 0
        assert all(0 <= each.value <= 1 for each in driver.levels("comm_wait_ratio", pid))


def test_a_job_that_marks_nothing_has_the_period_of_its_collectives(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start("steps.py", "by_hand", "200", f"{tmp_path}/RANK.json", ranks=2)
    assert driver.follow(job) == [0, 0]
    for rank in range(2):
        pid = facts(tmp_path, rank)["pid"]
        assert driver.total("steps_total", pid) == 0
        assert driver.total("gloo_calls_total", pid, "all_reduce") == 200 * 8
        seconds = driver.levels("step_period_seconds", pid)
        sure = driver.levels("step_period_confidence", pid)
        assert seconds
        assert seconds[-1].value > 0.01
        assert 0.3 < sure[-1].value <= 1


def test_ranks_of_spawned_processes_are_those_that_gloo_was_told(
    driver: Driver, start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start("steps.py", "spawn", "0", f"{tmp_path}/store")
    assert driver.follow(job) == [0]
    told = [each for each in driver.readings if isinstance(each, Told)]
    for rank in range(2):
        pid = int((tmp_path / f"store.{rank}").read_text())
        groups = [(each.size, each.rank) for each in told if each.process.pid == pid]
        assert max(groups, key=lambda group: group[0]) == (2, rank)
        assert driver.total("gloo_connects_total", pid) >= 1


DIES = ("ddp.py", "--steps", "60", "--die-rank", "1", "--die-at-step", "30")


@pytest.mark.parametrize("kind", ["fsdp1"])
def test_the_other_rank_of_a_killed_one_catches_its_exception_with_fsdp_too(
    driver: Driver, start: Callable[..., Job], tmp_path: Path, kind: str
) -> None:
    without = start(*DIES, "--kind", kind, "--report", f"{tmp_path}/RANK.json", ranks=2)
    # The probes sit in the file: nobody is unwatched. tests/e2e/test_torch_step.py compares with
    # a job that no agent sees; what must hold is that the exception is caught.
    assert driver.follow(without) == [PEER_LOST, -signal.SIGKILL]
    own = facts(tmp_path)
    assert own["error"].startswith(("RuntimeError", "DistBackendError"))
    assert driver.total("gloo_failures_total", own["pid"]) > 0
