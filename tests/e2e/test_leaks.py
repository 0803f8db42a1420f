"""Each leak forced singly: the drift alert fires within two evaluations, with the right reason.

And the other kind of leak: what the agent holds of the kernel after jobs have come and gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent import AgentProcess, fast_packs, wait_until
from tests.e2e.owner_jobs import LIBRARY, Job, build, holdings

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.conftest import NetnsPair

    Talk = Callable[..., tuple[subprocess.Popen[str], subprocess.Popen[str]]]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the probes need root"),
]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    (tmp_path / "rules").mkdir()
    agent = AgentProcess(tmp_path / "agent", fast_packs(tmp_path / "rules"))
    yield agent
    agent.stop()


def losing(agent: AgentProcess) -> list[dict[str, Any]]:
    return [alert for alert in agent.alerts() if alert["labels"]["alertname"] == "ProbeLosesEvents"]


def retransmit(pair: NetnsPair, talk: Talk, connections: int = 1) -> None:
    """Traffic that loses one packet in ten, until the fixture ends it."""
    pair.segment(1)
    pair.lose(100)
    for port in range(7000, 7000 + connections):
        talk(pair, 200, port=port)


def assert_fires_within_two_evaluations(agent: AgentProcess, reason: str, stream: str) -> None:
    wait_until(lambda: losing(agent), f"the drift alert\n{agent.log}", 60)
    (alert,) = [a for a in losing(agent) if a["labels"].get("stream", "") == stream]
    assert alert["labels"]["probe"] == "tcp_retransmit"
    assert alert["labels"]["reason"] == reason
    assert alert["state"] == "firing"
    # The first flush whose counters show the loss, and the evaluation that fired.
    lost = f'stallwatch_probe_lost_total{{probe="tcp_retransmit",reason="{reason}"}}'
    query = f"min_over_time(timestamp({lost} > 0)[2m:1s])"
    first = min(value for _, value in agent.query(query))
    assert parse_time(alert["firedAt"]) - first <= 2 * agent.seconds


def parse_time(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_a_ring_of_one_page_whose_consumer_is_stopped(
    agent: AgentProcess, netns_pair: NetnsPair, talk: Talk
) -> None:
    agent.probes = {"tcp_retransmit": {"ring_pages": 1}}
    agent.start()
    retransmit(netns_pair, talk)
    wait_until(lambda: any(v > 0 for _, v in agent.query("tcp_retrans_total")), "retransmits")
    assert agent.process is not None
    agent.process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    agent.process.send_signal(signal.SIGCONT)
    assert_fires_within_two_evaluations(agent, "ring_full", "events")


def test_a_full_map(agent: AgentProcess, netns_pair: NetnsPair, talk: Talk) -> None:
    agent.probes = {"tcp_retransmit": {"flows_limit": 1}}
    agent.start()
    retransmit(netns_pair, talk, connections=4)
    assert_fires_within_two_evaluations(agent, "map_full", "")


def test_a_full_queue(agent: AgentProcess, netns_pair: NetnsPair, talk: Talk) -> None:
    agent.queue_size = 1
    agent.start()
    retransmit(netns_pair, talk)
    assert_fires_within_two_evaluations(agent, "queue_full", "events")
    assert [a for a in agent.alerts() if a["labels"]["alertname"] == "QueueFull"]


def test_jobs_that_come_and_go_leave_nothing_with_the_agent(
    agent: AgentProcess, tmp_path: Path
) -> None:
    program = build(tmp_path)
    agent.start()
    assert agent.process is not None
    pid = agent.process.pid

    def run_jobs(task: str, library: Path) -> None:
        jobs = [Job(program, task, library=str(library), RANK=str(rank)) for rank in range(4)]
        query = f'count(stallwatch_task_info{{task_id="{task}"}})'
        wait_until(lambda: [value for _, value in agent.query(query)] == [4.0], "four ranks", 30)
        for job in jobs:
            job.tell("bomb", 100, 2)
        for job in jobs[:2]:
            assert job._line() == "done"
        for job in jobs:  # the others in the middle of it
            job.end()
        gone = f'absent(stallwatch_task_info{{task_id="{task}"}})'
        wait_until(lambda: agent.query(gone), "the end of the task", 30)

    run_jobs("warm", program.with_name(LIBRARY))
    time.sleep(2)
    before = holdings(pid)
    assert before["bpf-prog"] + before["bpf_link"] > 0
    upgraded = tmp_path / "upgraded"
    upgraded.mkdir()
    for number in range(3):
        library = upgraded / LIBRARY
        fresh = upgraded / "fresh"
        shutil.copy(program.with_name(LIBRARY), fresh)
        fresh.replace(library)  # another inode under the same name
        run_jobs(f"leak-{number}", library)
    # Not equal: other jobs of the machine may have ended meanwhile.
    wait_until(lambda: not holdings(pid) - before, f"what was held before: {before}", 30)
