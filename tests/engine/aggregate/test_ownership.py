"""Who a process counts for as it is told a rank, runs another program, ends: no count moves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine.aggregate.aggregator import TASK_INFO, Aggregator
from engine.aggregate.containers import Container, container_of, named
from engine.aggregate.fold import Fold
from engine.aggregate.identity import TaskDirectory
from engine.aggregate.inside import read_inside
from engine.aggregate.procfs import Procfs
from engine.labels import Labels
from engine.readings import Count, Event, Gone, Process, Told, Watched
from engine.series import stale_mask

if TYPE_CHECKING:
    from pathlib import Path

    from engine.flush import Flush

HEX = "0123456789abcdef" * 4
UID = "6b1f2c3d-0000-4a4a-9b9b-1234567890ab"
POD = f"0::/kubepods/burstable/pod{UID}/{HEX}"
STEPS = (("steps_total", ()),)


class Node:
    """A /proc of files and the aggregator that reads it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")
        self.aggregator = Aggregator(Fold(Labels()), TaskDirectory(Procfs(root)))
        self.now = 0

    def runs(
        self,
        pid: int,
        env: str = "",
        cgroup: str = "0::/",
        *,
        start: int = 5,
        image: int = 1,
        state: str = "S",
        threads: int = 1,
        memory: int = 4096,
    ) -> Process:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        fields = [state, "1", "7", *["0"] * 14, str(threads), "0", str(start)]
        fields += [str(memory), "0", "0"]
        fields += [str(image)] * 30
        (folder / "stat").write_text(f"{pid} (python) " + " ".join(fields))
        (folder / "environ").write_bytes("\0".join(env.split()).encode() + b"\0")
        (folder / "cgroup").write_text(cgroup + "\n")
        return Process(pid, start)

    def ends(self, process: Process) -> None:
        for file in (self.root / str(process.pid)).iterdir():
            file.unlink()

    def steps(self, process: Process, count: int) -> None:
        self.aggregator.add("torch", Count("steps_total", process, count))

    def watches(self, process: Process) -> None:
        self.aggregator.add("torch", Watched(process, STEPS, "libtorch_cpu.so"))

    def flush(self) -> Flush:
        self.now += 10_000
        return self.aggregator.flush(self.now)

    def shown(self, metric: str = "steps_total") -> dict[tuple[str, str], float | str]:
        flush = self.flush()
        stale = stale_mask(flush.values)
        return {
            (labels.get("task_id"), labels.get("rank")): "stale" if gone else float(value)
            for labels, value, gone in zip(flush.labels, flush.values, stale, strict=True)
            if labels.name == metric
        }


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_rank_learnt_late_counts_from_then_on_and_nothing_is_counted_twice(node: Node) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a")
    node.watches(process)
    node.steps(process, 4)
    node.flush()
    assert node.shown() == {("a", ""): 4.0}
    node.aggregator.add("gloo", Told(process, 3, 8))
    node.steps(process, 5)
    assert node.shown() == {("a", ""): 4.0, ("a", "3"): 0.0}
    node.steps(process, 6)
    assert node.shown() == {("a", ""): 4.0, ("a", "3"): 11.0}
    assert node.shown(TASK_INFO) == {("a", "3"): 1.0}


def test_what_was_counted_but_not_stored_stays_with_the_unknown_rank_too(node: Node) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a")
    node.steps(process, 4)
    node.aggregator.add("gloo", Told(process, 3))
    node.steps(process, 5)
    node.flush()
    assert node.shown() == {("a", ""): 4.0, ("a", "3"): 5.0}


def test_the_series_of_a_rank_learnt_late_begin_with_zero_at_once(node: Node) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a")
    node.watches(process)
    node.aggregator.add("gloo", Told(process, 3))
    assert node.shown() == {("a", ""): 0.0, ("a", "3"): 0.0}


def test_the_environment_comes_before_what_a_library_was_told(node: Node) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a RANK=1")
    node.aggregator.add("gloo", Told(process, 3, 8))
    node.steps(process, 1)
    assert node.shown() == {("a", "1"): 0.0}


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ([(3, 8), (1, 2)], "3"),
        ([(1, 2), (3, 8)], "3"),
        ([(3, 8), (5, 8)], "3"),
        ([(0, 0), (3, 8)], "3"),
    ],
)
def test_the_largest_group_tells_the_rank_and_of_equal_ones_the_first(
    node: Node, told: list[tuple[int, int]], rank: str
) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a")
    for number, size in told:
        node.aggregator.add("nccl", Told(process, number, size))
    node.steps(process, 1)
    assert node.shown() == {("a", rank): 0.0}


def test_a_spawned_process_that_only_its_group_names_has_the_rank_that_gloo_was_told(
    node: Node,
) -> None:
    process = node.runs(10)
    node.aggregator.add("gloo", Told(process, 2, 4))
    node.steps(process, 1)
    assert node.shown() == {("pgrp:7", "2"): 0.0}


def test_what_a_dead_process_was_told_is_not_given_to_the_next_with_its_pid(node: Node) -> None:
    old = node.runs(10, "STALLWATCH_TASK_ID=a")
    node.aggregator.add("gloo", Told(old, 2, 4))
    node.ends(old)
    node.flush()
    new = node.runs(10, "STALLWATCH_TASK_ID=a", start=6)
    node.steps(new, 1)
    assert node.shown() == {("a", ""): 0.0}
    assert not node.aggregator._told


def test_exec_with_another_environment_makes_the_same_process_count_for_another_rank(
    node: Node,
) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a")
    node.watches(process)
    node.steps(process, 2)
    node.flush()
    node.runs(10, "STALLWATCH_TASK_ID=a RANK=3", image=2)
    node.watches(process)
    node.steps(process, 5)
    assert node.shown() == {("a", ""): 2.0, ("a", "3"): 0.0}
    assert node.shown() == {("a", ""): 2.0, ("a", "3"): 5.0}


def test_exec_that_no_probe_tells_of_is_seen_at_the_next_flush(node: Node) -> None:
    process = node.runs(10)
    node.steps(process, 2)
    node.flush()
    node.runs(10, "STALLWATCH_TASK_ID=a RANK=3", image=2)
    node.flush()
    node.steps(process, 5)
    node.flush()
    assert node.shown()["a", "3"] == 5.0


def test_exec_out_of_a_task_ends_the_tasks_series(node: Node) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a RANK=0")
    node.steps(process, 2)
    node.flush()
    node.runs(10, "STALLWATCH_TASK_ID=b RANK=0", image=2)
    assert node.shown() == {("a", "0"): 2.0}
    assert node.shown() == {("a", "0"): "stale"}
    assert node.aggregator.tasks() == {"b": 1}


def test_a_child_that_is_gone_before_it_could_be_asked_belongs_where_its_parent_does(
    node: Node,
) -> None:
    parent = node.runs(10, "STALLWATCH_TASK_ID=a RANK=4")
    child, orphan = Process(11, 6), Process(12, 6)
    for process, forked_by in ((child, parent), (orphan, None)):
        watched = Watched(process, STEPS, "libtorch_cpu.so", forked_by)
        node.aggregator.add("torch", watched)
        node.steps(process, 3)
    node.flush()
    assert node.shown() == {("a", "4"): 3.0, ("", ""): 3.0}


def test_a_process_on_its_way_out_is_nobodys_rather_than_its_groups(node: Node) -> None:
    process = node.runs(10, memory=0)
    (node.root / "10/environ").write_bytes(b"")
    node.watches(process)
    node.steps(process, 3)
    assert node.shown() == {("", ""): 0.0}


def test_a_process_that_let_go_of_a_library_is_not_gone(node: Node) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a RANK=0")
    node.watches(process)
    node.aggregator.add("torch", Gone(process))
    node.flush()
    assert node.shown() == {("a", "0"): 0.0}
    node.watches(process)
    node.steps(process, 1)
    assert node.shown() == {("a", "0"): 1.0}


@pytest.mark.parametrize(("state", "threads", "tasks"), [("Z", 1, {}), ("Z", 3, {"a": 1})])
def test_a_process_whose_main_thread_ended_lives_as_long_as_another_thread_does(
    node: Node, state: str, threads: int, tasks: dict[str, int]
) -> None:
    process = node.runs(10, "STALLWATCH_TASK_ID=a RANK=0")
    node.watches(process)
    node.runs(10, "STALLWATCH_TASK_ID=a RANK=0", state=state, threads=threads)
    node.aggregator.add("torch", Gone(process))
    node.flush()
    assert node.aggregator.tasks() == tasks


def test_task_info_says_where_each_rank_runs_and_ends_with_it(node: Node) -> None:
    first = node.runs(10, "POD_NAME=train-0 POD_NAMESPACE=ml RANK=0", POD)
    worker = node.runs(30, "RANK=0", "0::/", start=9)
    node.steps(first, 1)
    flush = node.flush()
    (labels,) = [each for each in flush.labels if each.name == TASK_INFO]
    assert dict(labels) == {
        "__name__": TASK_INFO,
        "task_id": f"pod:{UID}",
        "rank": "0",
        "container": HEX[:12],
        "pod": "train-0",
        "pod_uid": UID,
        "namespace": "ml",
    }
    node.steps(worker, 1)
    assert node.shown(TASK_INFO) == {(f"pod:{UID}", "0"): 1.0}
    node.ends(first)
    node.flush()
    assert node.shown(TASK_INFO) == {(f"pod:{UID}", "0"): "stale"}
    assert node.shown(TASK_INFO) == {}


def test_an_event_carries_container_pod_and_namespace_where_they_are_known(node: Node) -> None:
    process = node.runs(10, "POD_NAME=train-0 POD_NAMESPACE=ml RANK=0", POD)
    plain = node.runs(11)
    for each in (process, plain):
        node.aggregator.add("tcp", Event("tcp_retransmit", 1, each, (("sport", 80),)))
    first, second = node.flush().events
    assert dict(first.fields) == {
        "sequence": 0,
        "sport": 80,
        "container": HEX[:12],
        "pod": "train-0",
        "pod_uid": UID,
        "namespace": "ml",
    }
    assert second.fields == (("sport", 80), ("sequence", 1))


@pytest.mark.parametrize(
    ("path", "container"),
    [
        (f"/kubepods/burstable/pod{UID}/{HEX}", Container(HEX[:12], UID)),
        (f"/kubepods/pod{UID}", Container("", UID)),
        (
            f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{HEX}.scope/sub",
            Container(HEX[:12], UID),
        ),
        (f"/system.slice/docker-{HEX}.scope", Container(HEX[:12])),
        (f"/kubepods/burstable/pod{UID}/nonsense", Container("", UID)),
        ("/kubepods/podnonsense/x", Container()),
        (f"/elsewhere/{HEX}", Container()),
    ],
)
def test_container_and_pod_uid_come_from_the_cgroup(path: str, container: Container) -> None:
    assert container_of((path,)) == container


class Root:
    """The root directory of a container."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("etc", "run/secrets/kubernetes.io/serviceaccount", "var"):
            (path / folder).mkdir(parents=True)
        (path / "var/run").symlink_to("/run")  # absolute, as distributions have it
        self.namespace = path / "run/secrets/kubernetes.io/serviceaccount/namespace"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


def test_pod_name_and_namespace_come_from_what_the_kubelet_mounts(root: Root) -> None:
    (root.path / "etc/hostname").write_text("train-0\n")
    root.namespace.write_text("ml")
    found = named(Container("", UID), {"HOSTNAME": "other"}, root.path)
    assert (found.pod, found.namespace) == ("train-0", "ml")


@pytest.mark.parametrize(
    ("environ", "pod", "namespace"),
    [
        ({"POD_NAME": "a-1", "POD_NAMESPACE": "b"}, "a-1", "b"),
        ({"HOSTNAME": "a-1"}, "a-1", ""),
        ({"POD_NAME": "UPPER", "HOSTNAME": "a"}, "a", ""),
        ({"POD_NAME": "x" * 300, "POD_NAMESPACE": "y" * 64}, "", ""),
        ({"POD_NAME": 'a"} 1\n', "POD_NAMESPACE": "a.b"}, "", ""),
        ({"HOSTNAME": os.uname().nodename}, "", ""),
        ({}, "", ""),
    ],
)
def test_only_names_that_kubernetes_allows_are_taken(
    root: Root, environ: dict[str, str], pod: str, namespace: str
) -> None:
    found = named(Container("", UID), environ, root.path)
    assert (found.pod, found.namespace) == (pod, namespace)


def test_outside_of_a_pod_nothing_is_asked(root: Root) -> None:
    root.namespace.write_text("ml")
    assert named(Container("abc"), {"POD_NAME": "a"}, root.path) == Container("abc")


def test_a_link_in_a_container_leads_to_no_file_of_the_node(root: Root, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of-the-node")
    hostname = root.path / "etc/hostname"
    hostname.symlink_to(tmp_path / "secret")
    assert read_inside(root.path, "etc/hostname") == ""
    hostname.unlink()
    hostname.symlink_to("../../../../../.." + str(tmp_path / "secret"))
    assert read_inside(root.path, "etc/hostname") == ""


def test_what_is_no_regular_file_is_not_opened(root: Root) -> None:
    os.mkfifo(root.path / "etc/hostname")
    assert read_inside(root.path, "etc/hostname") == ""
    (root.path / "etc/folder").mkdir()
    assert read_inside(root.path, "etc/folder") == ""


def test_garbage_of_any_length_is_cut_and_never_raises(root: Root) -> None:
    (root.path / "etc/hostname").write_bytes(b"\xff\xfe" + b"a" * 100_000)
    assert len(read_inside(root.path, "etc/hostname")) <= 256
    assert named(Container("", UID), {}, root.path).pod == ""
    assert read_inside(root.path / "nowhere", "etc/hostname") == ""


def test_this_very_process_reads_its_own_root() -> None:
    from pathlib import Path

    assert read_inside(Path("/proc/self/root"), "proc/self/comm") != "" or os.geteuid() != 0
