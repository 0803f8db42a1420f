"""A rank that is slow shows in the others' waits within two flushes of 10 s, and not in its own.

Real PyTorch on Gloo: DDP and FSDP with one rank whose sends are 100 ms late, DDP with one rank that
gets a fiftieth of a core. The agent is a process of its own, and is asked over HTTP.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent import AgentProcess, free_port, wait_until
from tests.e2e.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = os.environ.get("STALLWATCH_TORCH_PYTHON", sys.executable)
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes need root"),
    pytest.mark.skipif(
        sys.executable == PYTHON and importlib.util.find_spec("torch") is None,
        reason="PyTorch is missing (make e2e; STALLWATCH_TORCH_PYTHON names a Python that has it)",
    ),
]

HERE = Path(__file__).parent
FLUSH_SECONDS = 10
SLOW, RANKS = 1, 2


@dataclass
class Job:
    """Two ranks; rank SLOW has the library that makes its sends late, while `flag` exists."""

    folder: Path
    kind: str
    library: Path
    ranks: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def task(self) -> str:
        return f"{self.folder.name}-{os.getpid()}"

    @property
    def flag(self) -> Path:
        return self.folder / "slow"

    def start(self) -> None:
        self.folder.mkdir()
        port = str(free_port())
        for rank in range(RANKS):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(RANKS),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "GLOO_SOCKET_IFNAME": "lo",
                "STALLWATCH_TASK_ID": self.task,
                "OMP_NUM_THREADS": "1",
                "SLOW_SEND_WHILE": str(self.flag),
                "SLOW_SEND_US": "100000",
            }
            if rank == SLOW:
                environment["LD_PRELOAD"] = str(self.library)
            options = ("--steps", "0", "--kind", self.kind, "--pace", "0.05")
            report = ("--report", str(self.folder / f"rank{rank}.json"))
            workload = str(HERE / "workloads" / "ddp.py")
            with (self.folder / f"rank{rank}.err").open("w") as errors:
                self.ranks.append(
                    subprocess.Popen(
                        [PYTHON, workload, *options, *report], env=environment, stderr=errors
                    )
                )

    def steps(self) -> int:
        reports = [self.folder / f"rank{rank}.json" for rank in range(RANKS)]
        if not all(report.exists() for report in reports):
            return 0
        return min(int(json.loads(report.read_text()).get("steps", 0)) for report in reports)

    def end(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    assert compiler, "a compiler is needed for the library that is preloaded: apt-get install gcc"
    library = tmp_path_factory.mktemp("preload") / "slow_send.so"
    source = HERE / "stand_ins" / "slow_send.c"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path_factory.mktemp("stragglers"), [], seconds=FLUSH_SECONDS)
    agent.start()
    yield agent
    agent.stop()


@pytest.fixture
def jobs(tmp_path: Path, library: Path) -> Iterator[dict[str, Job]]:
    jobs = {
        name: Job(tmp_path / name, kind, library)
        for name, kind in (("ddp-send", "ddp"), ("fsdp-send", "fsdp2"), ("ddp-cpu", "ddp"))
    }
    for job in jobs.values():
        job.start()
    yield jobs
    for job in jobs.values():
        job.end()


def ratios(agent: AgentProcess, job: Job) -> dict[int, float]:
    rows = agent.query(f'comm_wait_ratio{{task_id="{job.task}"}}')
    return {int(labels["rank"]): value for labels, value in rows}


def test_a_slow_rank_makes_the_others_wait_within_two_flushes_and_does_not_wait_itself(
    agent: AgentProcess, jobs: dict[str, Job]
) -> None:
    wait_until(lambda: min(job.steps() for job in jobs.values()) > 20, "the jobs' steps", 120)
    began = time.monotonic()
    time.sleep(2 * FLUSH_SECONDS)
    clean = {name: ratios(agent, job) for name, job in jobs.items()}
    throttle = Throttle(jobs["ddp-cpu"].ranks[SLOW].pid, 0.02)
    throttle.start()
    jobs["ddp-send"].flag.touch()
    jobs["fsdp-send"].flag.touch()
    # Whichever moment of a flush it is: the second one after it saw nothing else.
    time.sleep(2 * FLUSH_SECONDS + 1)
    slow = {name: ratios(agent, job) for name, job in jobs.items()}
    throttle.stop()
    print(json.dumps({"clean": clean, "slow": slow, "throttled by": throttle.way}))
    assert time.monotonic() - began >= 4 * FLUSH_SECONDS
    for name in jobs:
        assert clean[name].keys() == slow[name].keys() == {0, 1}, name
        waiting, guilty = slow[name][1 - SLOW], slow[name][SLOW]
        assert waiting > clean[name][1 - SLOW] + 0.2, name
        assert waiting > 0.5, name
        assert guilty < waiting / 2, name
