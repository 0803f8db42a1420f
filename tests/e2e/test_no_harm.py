"""The whole agent beside real jobs: they live, wait and end as they would without it.

Real PyTorch DDP on Gloo, all probes attached, the agent a process of its own. What the agent says
of a job is read over HTTP or from its recording, and compared with the job's own reports.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import statistics
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.dataset import open_data
from tests.e2e.agent import AgentProcess, fast_packs, wait_until
from tests.e2e.ddp import DdpJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import NetnsPair

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and uprobes need root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is missing (make e2e)"
    ),
]

PEER_LOST, EXECUTED = 3, 5
PROBES = {"tcp_retransmit", "torch_step", "process"}
# Attaching to a new libtorch takes some seconds, and so long a job's steps are not seen: a real one
# is still reading its data then.
PAUSE = ("--pause", "8")
DIES = (*PAUSE, "--steps", "100", "--die-rank", "1", "--die-at-step", "40")
FORKS = (*PAUSE, "--steps", "100", "--workers", "2", "--spawn-every", "10", "--exec-at-end")
SHARDS = (*PAUSE, "--steps", "40", "--kind", "fsdp1")
# Paced, so that a kill falls into the run: rank 0 waits most of each step.
BUDGETED = {"cuda", "gloo", "mpi", "nccl", "torch_step"}
PACED = ("--sleep-rank", "1", "--sleep-before-backward", "0.02")
# Without the uprobe PMU uprobes go through uprobe_events, whose entries outlive their owner.
HIDE_PMU = 'mount -t tmpfs none /sys/devices/uprobe && exec "$@"'
NO_PMU = ("unshare", "-m", "sh", "-c", HIDE_PMU, "sh")


class Jobs:
    """Starts jobs over one pair, each with a task id and a port of its own."""

    def __init__(self, pair: NetnsPair, folder: Path) -> None:
        self.pair = pair
        self._folder = folder
        self.started: list[DdpJob] = []

    def start(self, name: str, *options: str) -> DdpJob:
        port = 29500 + len(self.started)
        job = DdpJob(self.pair, self._folder / name, options, f"noharm-{name}", port)
        self.started.append(job)
        job.start()
        return job


def exits(job: DdpJob) -> list[int]:
    return [rank.wait(180) for rank in job.ranks]


def task(job: DdpJob) -> str:
    return f'task_id="torchrun:{job.task_id}"'


def by_rank(agent: AgentProcess, expression: str) -> dict[str, float]:
    return {labels["rank"]: value for labels, value in agent.query(expression)}


def final(agent: AgentProcess, job: DdpJob, metric: str) -> dict[str, float]:
    """A counter's last value per rank, after the job's series have ended."""
    selector = f"{metric}{{{task(job)}}}"
    wait_until(lambda: not agent.query(selector), f"the end of {selector}", 60)
    return by_rank(agent, f"sum by (rank) (last_over_time({selector}[10m]))")


def make_agent(folder: Path, name: str) -> AgentProcess:
    (folder / f"{name}-rules").mkdir()
    agent = AgentProcess(folder / name, fast_packs(folder / f"{name}-rules"))
    # All of them all the time, also where steps are so short that a budget lets some go.
    agent.probes = {name: {"budget": {"enabled": False}} for name in sorted(BUDGETED)}
    return agent


def own_uprobe_events(agent: AgentProcess) -> list[str]:
    """The agent's entries, running or not; other agents of the machine have theirs."""
    assert agent.process is not None
    events = Path("/sys/kernel/tracing/uprobe_events").read_text()
    return [line for line in events.splitlines() if f"/u_{agent.process.pid}_" in line]


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, make_lasting_netns_pair: Callable[[str], NetnsPair]
) -> Jobs:
    pair = make_lasting_netns_pair("noharm")
    pair.quiet()
    return Jobs(pair, tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def unwatched(jobs: Jobs) -> dict[str, DdpJob]:
    """Jobs that ended before any agent ran."""
    started = {
        "dies": jobs.start("dies-alone", *DIES),
        "forks": jobs.start("forks-alone", *FORKS),
        "shards": jobs.start("shards-alone", *SHARDS),
    }
    for job in started.values():
        exits(job)
    return started


@pytest.fixture(scope="module")
def agent(
    unwatched: dict[str, DdpJob], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentProcess]:
    agent = make_agent(tmp_path_factory.mktemp("agents"), "agent")
    agent.start()
    try:
        query = "stallwatch_probe_up == 1"
        wait_until(lambda: {row["probe"] for row, _ in agent.query(query)} >= PROBES, "the probes")
        yield agent
    finally:
        status = agent.stop()
    assert status == 0
    assert own_uprobe_events(agent) == []


@pytest.fixture(scope="module")
def watched(jobs: Jobs, agent: AgentProcess) -> dict[str, DdpJob]:
    """The same jobs as the unwatched ones, beside the agent."""
    started = {
        "dies": jobs.start("dies", *DIES),
        "forks": jobs.start("forks", *FORKS),
        "shards": jobs.start("shards", *SHARDS),
    }
    for job in started.values():
        exits(job)
    return started


def test_the_other_rank_of_a_killed_one_catches_its_exception_as_without_the_agent(
    agent: AgentProcess, unwatched: dict[str, DdpJob], watched: dict[str, DdpJob]
) -> None:
    without, job = unwatched["dies"], watched["dies"]
    assert exits(job) == exits(without) == [PEER_LOST, -signal.SIGKILL]
    assert job.report(0)["error"].startswith("RuntimeError")
    # It was watched up to the end, the step that raised not counted.
    assert final(agent, job, "steps_total") == {"0": 40, "1": 40}


def test_ranks_that_fork_load_unload_and_exec_end_as_without_the_agent_and_count_once(
    agent: AgentProcess, unwatched: dict[str, DdpJob], watched: dict[str, DdpJob]
) -> None:
    without, job = unwatched["forks"], watched["forks"]
    assert exits(job) == exits(without) == [EXECUTED, EXECUTED]
    assert final(agent, job, "steps_total") == {"0": 100, "1": 100}
    assert [job.steps(rank) for rank in (0, 1)] == [100, 100]


def test_ranks_of_fsdp_end_as_without_the_agent(
    agent: AgentProcess, unwatched: dict[str, DdpJob], watched: dict[str, DdpJob]
) -> None:
    # Nothing rests before the exit. An abort in either is told in probes/torch_step/README.md.
    without, job = unwatched["shards"], watched["shards"]
    assert exits(job) == exits(without) == [0, 0]
    assert final(agent, job, "steps_total") == {"0": 40, "1": 40}


@pytest.mark.parametrize("name", ["dies", "forks"])
def test_a_watched_job_is_as_large_as_an_unwatched_one(
    name: str, unwatched: dict[str, DdpJob], watched: dict[str, DdpJob]
) -> None:
    for rank in (0, 1):
        sizes = [kind[name].report(rank)["max_rss_bytes"] for kind in (unwatched, watched)]
        assert sizes[1] == pytest.approx(sizes[0], rel=0.05)


def test_a_rank_that_is_late_makes_the_other_wait_and_not_itself(
    agent: AgentProcess, jobs: Jobs
) -> None:
    waits = []
    for name, options in (
        ("prompt", ()),
        ("late", ("--sleep-rank", "1", "--sleep-before-backward", "0.05")),
    ):
        job = jobs.start(name, *PAUSE, "--steps", "150", *options)
        assert exits(job) == [0, 0]
        assert final(agent, job, "steps_total") == {"0": 150, "1": 150}
        waited = final(agent, job, "comm_wait_seconds_total")
        waits.append([waited[rank] / 150 for rank in ("0", "1")])
    growth = [late - prompt for prompt, late in zip(*waits, strict=True)]
    # 50 ms, and what a busy machine added to them.
    assert growth[0] == pytest.approx(job.report(1)["slept_seconds"] / 150, rel=0.15)
    assert growth[1] < 0.005


def test_a_stopped_rank_shows_by_the_second_flush(agent: AgentProcess, jobs: Jobs) -> None:
    job = jobs.start("stopped", "--steps", "0")
    wait_until(lambda: min(job.steps(0), job.steps(1)) >= 20, "the first steps")
    with stopped(job.pids[1]):
        # Flushes fall on whole seconds; the first one after the stop still holds steps.
        second = int(time.time()) + 2
        query = f"comm_wait_ratio{{{task(job)}}} @ {second}"
        newest = f"max(timestamp(comm_wait_ratio{{{task(job)}}}))"
        wait_until(lambda: agent.query(newest)[0][1] >= second, "the second flush", 30)
        assert 0.9 <= by_rank(agent, query)["0"] <= 1.0
    job.kill()


def test_a_job_goes_on_beside_a_stopped_agent_and_no_step_is_lost(
    agent: AgentProcess, jobs: Jobs
) -> None:
    job = jobs.start("goes-on", *PAUSE, "--steps", "1000", *PACED)
    wait_until(lambda: min(job.steps(0), job.steps(1)) >= 200, "the first steps")
    assert agent.process is not None
    before = job.steps(0)
    with stopped(agent.process.pid):
        time.sleep(10)
        after = job.steps(0)
    assert exits(job) == [0, 0]
    times = job.report(0)["step_seconds"]
    beside_running = statistics.median(times[50:before])
    beside_stopped = statistics.median(times[before:after])
    assert beside_stopped < 2 * beside_running
    assert final(agent, job, "steps_total") == {"0": 1000, "1": 1000}


def test_retransmits_are_owned_by_the_right_rank_at_both_ends(
    agent: AgentProcess, jobs: Jobs
) -> None:
    pair = jobs.pair
    for side in (0, 1):
        pair.lose(20, side)
    job = jobs.start("loses", "--steps", "0", "--dim", "512")
    try:
        retransmits = f"sum by (rank) (tcp_retrans_total{{{task(job)}}})"
        wait_until(
            lambda: min(by_rank(agent, retransmits).get(rank, 0) for rank in "01") >= 5,
            "retransmits of both ranks",
        )
    finally:
        for side in (0, 1):
            pair.heal(side)
        job.kill()
    time.sleep(2)
    now_ms = int(time.time() * 1000)
    events = open_data(str(agent.recording)).events(
        f"torchrun:{job.task_id}", now_ms - 600_000, now_ms, now_ms
    )
    ends = set()
    for event in events:
        fields = dict(event.fields)
        if "src" in fields:
            rank = int(event.rank)
            assert event.pid == job.pids[rank] == job.report(rank)["pid"]
            assert fields["src"] == pair.addresses[rank]
            ends.add((fields["src"], fields["dst"]))
    first, second = pair.addresses
    # Rank 0 also talks to itself: it serves the rendezvous and is its client.
    assert ends - {(first, first)} == {(first, second), (second, first)}


@pytest.mark.parametrize("prefix", [(), NO_PMU], ids=["pmu", "uprobe_events"])
def test_a_job_outlives_an_agent_killed_in_mid_step_and_the_next_start_cleans_up(
    prefix: tuple[str, ...], jobs: Jobs, tmp_path: Path
) -> None:
    killed = make_agent(tmp_path, "killed")
    killed.start(*prefix)
    try:
        job = jobs.start("-".join(("outlives", *prefix[:1])), *PAUSE, "--steps", "600", *PACED)
        steps = f"steps_total{{{task(job)}}}"
        wait_until(lambda: by_rank(killed, steps).get("0", 0) >= 20, "the first steps")
    finally:
        killed.kill()
    assert job.steps(0) < 600
    assert bool(own_uprobe_events(killed)) == bool(prefix)
    assert exits(job) == [0, 0]
    assert [job.steps(rank) for rank in (0, 1)] == [600, 600]
    following = make_agent(tmp_path, "following")
    following.start(*prefix)
    assert own_uprobe_events(killed) == []
    assert following.stop() == 0
    assert own_uprobe_events(following) == []
