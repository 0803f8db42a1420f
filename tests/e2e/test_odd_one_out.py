"""Which of four ranks is the odd one out: real DDP on Gloo, in two network namespaces.

A job runs on, clean at first; then one rank gets half of the CPU time that it used. Of another job,
whose steps are short, one rank's link loses 3 % of what it sends. Rules that compare ranks with
their peers say which.

A machine that is busy with other things makes stragglers of its own, so who else is named is only
printed. The long form is for a calm one (`make odd-one-out`, STALLWATCH_CLEAN_SECONDS): the clean
parts last so long, nobody else may be named at any time, and a rank that sleeps 100 ms every 20th
step must be.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent import AgentProcess, wait_until
from tests.e2e.throttle import Throttle

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.e2e.conftest import NetnsPair

PYTHON = os.environ.get("STALLWATCH_TORCH_PYTHON", sys.executable)
LONG = "STALLWATCH_CLEAN_SECONDS" in os.environ
CLEAN_SECONDS = int(os.environ.get("STALLWATCH_CLEAN_SECONDS", "20"))
pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900 + CLEAN_SECONDS),
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes need root"),
    pytest.mark.skipif(
        sys.executable == PYTHON and importlib.util.find_spec("torch") is None,
        reason="PyTorch is missing (make e2e; STALLWATCH_TORCH_PYTHON names a Python that has it)",
    ),
]

HERE = Path(__file__).parent
RANKS = 4
THROTTLED, SLEEPY, LOSSY = 1, 2, 3
DETECT_SECONDS = 180
REST_SECONDS = 45
# A rank's own part of a step is what it does not wait; a second of it is noise, thirty are not.
RULES = """\
groups:
  - name: odd-one-out
    interval: 1s
    rules:
      - record: rank:step_work_seconds
        expr: >-
          avg_over_time(step_time_seconds{task_id!=""}[30s])
          * (1 - avg_over_time(comm_wait_ratio{task_id!=""}[30s]))
      - record: rank:straggler_score
        expr: straggler_score by (task_id) (rank:step_work_seconds)
      - alert: Straggling
        expr: |
          straggler_slowdown by (task_id) (rank:step_work_seconds) > 1.2
          and count_over_time((rank:straggler_score > 3)[10s:1s]) >= 8
        labels: {tier: "2"}
      - alert: LossyLink
        expr: |
          rate(tcp_retrans_total{task_id!=""}[10s]) > 0.5
          and straggler_score by (task_id) (rate(tcp_retrans_total{task_id!=""}[10s])) > 3
        for: 3s
        labels: {tier: "1"}
"""


@dataclass
class Job:
    """Four ranks, the last of them in a namespace of its own."""

    folder: Path
    pair: NetnsPair
    options: tuple[str, ...] = ()
    ranks: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def task(self) -> str:
        return f"odd-{os.getpid()}"

    @property
    def flag(self) -> Path:
        return self.folder / "sleepy"

    def start(self) -> None:
        for rank in range(RANKS):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(RANKS),
                "MASTER_ADDR": self.pair.addresses[0],
                "MASTER_PORT": "29711",
                "GLOO_SOCKET_IFNAME": "veth0",
                "STALLWATCH_TASK_ID": self.task,
                "OMP_NUM_THREADS": "1",
            }
            sleep = ("--sleep-rank", str(SLEEPY), "--sleep-before-backward", "0.1")
            when = ("--sleep-every", "20", "--sleep-while", str(self.flag))
            options = ("--steps", "0", *self.options, *sleep, *when)
            report = ("--report", str(self.folder / f"rank{rank}.json"))
            workload = str(HERE / "workloads" / "ddp.py")
            side = 1 if rank == LOSSY else 0
            with (self.folder / f"rank{rank}.err").open("w") as errors:
                self.ranks.append(
                    self.pair.popen(
                        side,
                        *(PYTHON, workload, *options, *report),
                        env=environment,
                        stderr=errors,
                        stdout=errors,
                    )
                )

    def steps(self) -> int:
        reports = [self.folder / f"rank{rank}.json" for rank in range(RANKS)]
        if not all(report.exists() for report in reports):
            return 0
        return min(int(json.loads(report.read_text()).get("steps", 0)) for report in reports)

    def cpu_share(self, rank: int, seconds: float = 10.0) -> float:
        """The share of a core that a rank uses."""
        before = self._cpu_seconds(rank)
        time.sleep(seconds)
        return (self._cpu_seconds(rank) - before) / seconds

    def _cpu_seconds(self, rank: int) -> float:
        stat = Path(f"/proc/{self.ranks[rank].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def lose(self) -> None:
        """Of what the last rank sends, three of a hundred packets do not arrive."""
        rule = 'iifname "veth0" meta l4proto tcp numgen random mod 100 < 3 drop'
        table = (
            "add table inet lossy\n"
            "add chain inet lossy in { type filter hook input priority 0; }\n"
            f"add rule inet lossy in {rule}\n"
        )
        self.pair.run(0, "nft", "-f", "-", text=table)

    def heal(self) -> None:
        self.pair.run(0, "nft", "delete", "table", "inet", "lossy")


@pytest.fixture
def job(tmp_path: Path, netns_pair: NetnsPair) -> Job:
    netns_pair.quiet()
    return Job(tmp_path, netns_pair)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    rules = tmp_path / "peers.yaml"
    rules.write_text(RULES)
    agent = AgentProcess(tmp_path / "agent", [rules])
    agent.start()
    yield agent
    agent.stop()


def firing(agent: AgentProcess) -> set[tuple[str, int]]:
    """The alerts that fire: name and rank."""
    return {
        (alert["labels"]["alertname"], int(alert["labels"]["rank"]))
        for alert in agent.alerts()
        if alert["state"] == "firing"
    }


def watched(agent: AgentProcess, seconds: float) -> set[tuple[str, int]]:
    """Everything that fires within so many seconds."""
    found: set[tuple[str, int]] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found |= firing(agent)
        time.sleep(0.5)
    return found


def detected(
    agent: AgentProcess, wanted: tuple[str, int]
) -> tuple[float | None, set[tuple[str, int]]]:
    """After how many seconds an alert fires, None: never; and which others until 5 s later."""
    began, others = time.monotonic(), set[tuple[str, int]]()
    while wanted not in others:
        if time.monotonic() - began > DETECT_SECONDS:
            return None, others
        others |= firing(agent)
        time.sleep(0.1)
    after = time.monotonic() - began
    return after, (others | watched(agent, 5)) - {wanted}


def rested(agent: AgentProcess) -> None:
    """What was has ended, and its windows are over."""
    time.sleep(REST_SECONDS)
    wait_until(lambda: not firing(agent), "alerts to end", DETECT_SECONDS)


def settled(agent: AgentProcess, job: Job) -> dict[str, object]:
    """Start a job, and watch it while it is clean."""
    job.start()
    wait_until(lambda: job.steps() > 100, "the job's steps", 180)
    work = 'count(rank:step_work_seconds{task_id!=""})'
    wait_until(lambda: [value for _, value in agent.query(work)] == [RANKS], "work of four ranks")
    time.sleep(REST_SECONDS)
    steps, began = job.steps(), time.monotonic()
    alarms = watched(agent, CLEAN_SECONDS)
    rate = (job.steps() - steps) / (time.monotonic() - began)
    return {
        "clean seconds": CLEAN_SECONDS,
        "false alarms": sorted(alarms),
        "steps a second": round(rate, 1),
        "load": os.getloadavg()[0],
    }


def test_a_rank_with_half_its_cpu_time_is_named(agent: AgentProcess, job: Job) -> None:
    # Enough to compute that it does not all go into the exchange of gradients.
    job.options = ("--batch", "512", "--pace", "0.01")
    told = settled(agent, job)
    throttle = Throttle(job.ranks[THROTTLED].pid, job.cpu_share(THROTTLED) / 2)
    throttle.start()
    told["half the CPU"] = after, others = detected(agent, ("Straggling", THROTTLED))
    throttle.stop()
    print(json.dumps(told, default=list))
    assert after is not None
    if LONG:
        assert others == set()
        assert told["false alarms"] == []


def test_a_link_that_loses_packets_and_a_rank_that_sleeps_at_times_are_named(
    agent: AgentProcess, job: Job
) -> None:
    told = settled(agent, job)
    job.lose()
    told["3 % loss"] = lossy, beside_loss = detected(agent, ("LossyLink", LOSSY))
    job.heal()
    print(json.dumps(told, default=list))
    assert lossy is not None
    if LONG:
        # 5 ms a step: what a busy machine adds to one rank and not to another is more.
        rested(agent)
        job.flag.touch()
        told["every 20th"] = sleepy, beside_sleep = detected(agent, ("Straggling", SLEEPY))
        job.flag.unlink()
        print(json.dumps(told, default=list))
        assert sleepy is not None
        assert (beside_loss, beside_sleep) == (set(), set())
        assert told["false alarms"] == []
