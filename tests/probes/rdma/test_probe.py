"""From files and descriptors to samples: each port counts once, for whom it can."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.aggregate.aggregator import Aggregator
from engine.aggregate.fold import Fold
from engine.aggregate.identity import TaskDirectory
from engine.labels import Labels
from engine.readings import ProbeOptions
from probes.rdma.probe import RdmaProbe
from probes.rdma.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.probes.rdma.conftest import Tree

HOLD = (
    "import sys; files = [open(path) for path in sys.argv[1:]]; print(flush=True); sys.stdin.read()"
)


class Node:
    """The probe on a fake tree and an aggregator behind it."""

    def __init__(self, tree: Tree) -> None:
        self.sampler = Sampler(tree.root)
        self.probe = RdmaProbe(tree.root, self.sampler)
        self.aggregator = Aggregator(Fold(Labels.of(node="n")), TaskDirectory())
        self.started = self.probe.start(
            ProbeOptions(), lambda reading: self.aggregator.add("rdma", reading)
        )
        self.flushes = 0

    def flush(self) -> dict[str, float]:
        """Look, and the samples of the flush as text: `name{device,task_id,...}` to value."""
        self.sampler.look()
        self.probe.collect()
        self.flushes += 1
        flush = self.aggregator.flush(self.flushes * 10_000)
        return {
            _text(labels): value
            for labels, value in zip(flush.labels, flush.values, strict=True)
            if labels.name.startswith("rdma_") and not math.isnan(value)  # no staleness markers
        }


def _text(labels: Labels) -> str:
    tags = labels.to_dict()
    name = tags.pop("__name__")
    tags.pop("node")
    inside = ",".join(f"{key}={value}" for key, value in sorted(tags.items()) if value)
    return f"{name}{{{inside}}}"


@pytest.fixture
def holding() -> Iterator[Callable[..., None]]:
    """Start a process that holds nodes, as a rank of a task."""
    started: list[subprocess.Popen[str]] = []

    def hold(*paths: Path, task: str, rank: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"STALLWATCH_TASK_ID": task, "RANK": rank},
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()

    yield hold
    for process in started:
        process.communicate("")


def test_nobodys_port_counts_for_the_node_from_its_first_sight(tree: Tree) -> None:
    tree.port("mlx5_0", local_ack_timeout_err=1000, np_cnp_sent=50, port_xmit_wait=9)
    node = Node(tree)
    assert node.started.state == "attached"
    node.flush()
    tree.port("mlx5_0", local_ack_timeout_err=1007, np_cnp_sent=51, port_xmit_wait=29)
    assert node.flush() == {
        "rdma_retrans_total{cause=timeout,device=mlx5_0,port=1}": 7,
        "rdma_congestion_total{cause=cnp_sent,device=mlx5_0,port=1}": 1,
        "rdma_xmit_wait_ticks_total{device=mlx5_0,port=1}": 20,
        "rdma_device_tasks{device=mlx5_0}": 0,
    }


def test_the_one_rank_on_a_device_gets_its_counts(
    tree: Tree, node: Callable[[str], Path], holding: Callable[..., None]
) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    tree.port("mlx5_0", out_of_sequence=5)
    agent = Node(tree)
    holding(node("uverbs0"), task="job", rank="3")
    agent.flush()
    tree.port("mlx5_0", out_of_sequence=9)
    assert agent.flush() == {
        "rdma_retrans_total{cause=out_of_sequence,device=mlx5_0,port=1,rank=3,task_id=job}": 4,
        "rdma_device_held{device=mlx5_0,rank=3,task_id=job}": 1,
        "rdma_device_tasks{device=mlx5_0}": 1,
    }


def test_ranks_of_one_task_that_share_a_device_count_once_for_the_task(
    tree: Tree, node: Callable[[str], Path], holding: Callable[..., None]
) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    tree.port("mlx5_0", out_of_sequence=5)
    path = node("uverbs0")
    holding(path, task="job", rank="0")
    holding(path, task="job", rank="1")
    agent = Node(tree)
    agent.flush()
    tree.port("mlx5_0", out_of_sequence=9)
    assert agent.flush() == {
        "rdma_retrans_total{cause=out_of_sequence,device=mlx5_0,port=1,task_id=job}": 4,
        "rdma_device_held{device=mlx5_0,rank=0,task_id=job}": 1,
        "rdma_device_held{device=mlx5_0,rank=1,task_id=job}": 1,
        "rdma_device_tasks{device=mlx5_0}": 1,
    }


def test_a_device_of_two_tasks_counts_once_for_the_node_and_says_who_shares_it(
    tree: Tree, node: Callable[[str], Path], holding: Callable[..., None]
) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    tree.verbs("uverbs1", "mlx5_1")
    for device in ("mlx5_0", "mlx5_1"):
        tree.port(device, out_of_sequence=5)
    first, second = node("uverbs0"), node("uverbs1")
    holding(first, second, task="a", rank="0")
    holding(first, task="b", rank="0")
    agent = Node(tree)
    agent.flush()
    for device in ("mlx5_0", "mlx5_1"):
        tree.port(device, out_of_sequence=9)
    seen = agent.flush()
    retransmits = {name: value for name, value in seen.items() if name.startswith("rdma_retrans")}
    assert retransmits == {
        "rdma_retrans_total{cause=out_of_sequence,device=mlx5_0,port=1}": 4,
        "rdma_retrans_total{cause=out_of_sequence,device=mlx5_1,port=1,rank=0,task_id=a}": 4,
    }
    assert seen["rdma_device_tasks{device=mlx5_0}"] == 2
    assert seen["rdma_device_held{device=mlx5_0,rank=0,task_id=b}"] == 1


def test_a_device_that_is_plugged_in_or_back_in_counts_from_then_on(tree: Tree) -> None:
    agent = Node(tree)
    assert agent.flush() == {}
    tree.port("mlx5_0", out_of_sequence=900)
    agent.flush()
    tree.port("mlx5_0", out_of_sequence=901)
    name = "rdma_retrans_total{cause=out_of_sequence,device=mlx5_0,port=1}"
    assert agent.flush()[name] == 1
    shutil.rmtree(tree.root / "infiniband/mlx5_0")
    agent.flush()
    assert agent.probe.status().detail == "0 devices"
    tree.port("mlx5_0", out_of_sequence=4)
    agent.flush()
    tree.port("mlx5_0", out_of_sequence=6)
    assert agent.flush()[name] == 3


def test_what_a_port_does_not_tell_is_said_in_the_status(tree: Tree) -> None:
    tree.port("mlx5_0", out_of_sequence="N/A (no PMA)", symbol_error=65_535)
    agent = Node(tree)
    agent.flush()
    assert agent.probe.status().detail == (
        "1 devices; 1 counters tell no number: mlx5_0/1/out_of_sequence;"
        " 1 counters stand at their ceiling: mlx5_0/1/symbol_error"
    )


def test_a_node_without_rdma_is_in_order(tmp_path: Path) -> None:
    probe = RdmaProbe(tmp_path)
    status = probe.start(ProbeOptions(), print)
    probe.poll()
    probe.collect()
    assert (status.state, status.reason) == ("off", "device_absent")
    probe.stop()


def test_the_thread_reads_by_itself(tree: Tree) -> None:
    tree.port("mlx5_0", out_of_sequence=1)
    probe = RdmaProbe(tree.root)
    seen: list[object] = []
    probe.start(ProbeOptions({"interval_seconds": 0.01}), seen.append)
    for _ in range(500):
        probe.collect()
        if seen:
            break
        probe.poll()
        _pause()
    probe.stop()
    assert seen
    assert probe.status().reason == "stopped"


def _pause() -> None:
    subprocess.run(["true"], check=True)
