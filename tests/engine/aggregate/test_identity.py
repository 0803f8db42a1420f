"""Task and rank from what /proc shows, on a /proc made of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.aggregate.containers import container_of
from engine.aggregate.identity import Owner, TaskDirectory
from engine.aggregate.procfs import Procfs
from engine.readings import Process

if TYPE_CHECKING:
    from pathlib import Path

HEX = "0123456789abcdef" * 4
UID = "6b1f2c3d-0000-4a4a-9b9b-1234567890ab"


class FakeProc:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")

    def add(self, pid: int, start: int, env: str = "", cgroup: str = "0::/", pgrp: int = 1) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        # proc(5): comm in parentheses, then state, ppid, pgrp ... starttime is field 22.
        fields = ["S", "1", str(pgrp), *["0"] * 16, str(start), "0"]
        (folder / "stat").write_text(f"{pid} (py (th) on) " + " ".join(fields))
        (folder / "environ").write_bytes("\0".join(env.split()).encode() + b"\0")
        (folder / "cgroup").write_text(cgroup + "\n")


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def owner(proc: FakeProc, pid: int, start: int = 5, *, library: bool = False) -> Owner:
    return TaskDirectory(Procfs(proc.root)).lookup(Process(pid, start), library=library)


@pytest.mark.parametrize(
    ("env", "task_id", "rank"),
    [
        ("STALLWATCH_TASK_ID=mine SLURM_JOB_ID=7 RANK=3", "mine", "3"),
        ("SLURM_JOB_ID=7 SLURM_STEP_ID=2 SLURM_PROCID=1", "slurm:7.2", "1"),
        ("SLURM_JOB_ID=7", "slurm:7.batch", ""),
        ("TORCHELASTIC_RUN_ID=job42 RANK=0", "torchrun:job42", "0"),
        (
            "TORCHELASTIC_RUN_ID=none MASTER_ADDR=h MASTER_PORT=29500 RANK=1",
            "torch:h:29500@1700000000",
            "1",
        ),
        ("PMIX_NAMESPACE=prte-9@1 OMPI_COMM_WORLD_RANK=4", "mpi:prte-9@1", "4"),
        ("RANK=3 HOME=/root", "", ""),
        ("", "", ""),
    ],
)
def test_task_and_rank_come_from_the_first_source_that_applies(
    proc: FakeProc, env: str, task_id: str, rank: str
) -> None:
    proc.add(10, 5, env)
    assert owner(proc, 10) == Owner(task_id, rank, "py (th) on")


@pytest.mark.parametrize(
    ("path", "task_id"),
    [
        (f"/kubepods/burstable/pod{UID}/{HEX}", f"pod:{UID}"),
        (
            (
                f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"
                f"{UID.replace('-', '_')}.slice/cri-containerd-{HEX}.scope"
            ),
            f"pod:{UID}",
        ),
        (f"/system.slice/docker-{HEX}.scope", f"container:{HEX[:12]}"),
        (f"/docker/{HEX}", f"container:{HEX[:12]}"),
        (f"/machine.slice/libpod-{HEX}.scope/container", f"container:{HEX[:12]}"),
        ("/user.slice/user-1000.slice/session-2.scope", ""),
        (f"/something/{HEX}", ""),
        ("/", ""),
    ],
)
def test_only_known_cgroup_shapes_name_a_task(path: str, task_id: str) -> None:
    assert container_of((path,)).task_id == task_id


def test_two_jobs_that_follow_each_other_on_one_port_are_two_tasks(proc: FakeProc) -> None:
    env = "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
    directory = TaskDirectory(Procfs(proc.root))
    proc.add(10, 500, env)
    proc.add(11, 700, env)
    first = directory.lookup(Process(11, 700))
    assert first.task_id == "torch:127.0.0.1:29500@1700000005"
    assert directory.lookup(Process(10, 500)).task_id == first.task_id
    directory.forget(Process(10, 500))
    directory.forget(Process(11, 700))
    for pid in (10, 11):
        (proc.root / str(pid) / "environ").unlink()
    proc.add(12, 90_000, env)
    assert directory.lookup(Process(12, 90_000)).task_id == "torch:127.0.0.1:29500@1700000900"


def test_a_process_group_is_a_task_only_for_a_process_that_maps_a_watched_library(
    proc: FakeProc,
) -> None:
    proc.add(20, 3)
    proc.add(10, 5, pgrp=20)
    directory = TaskDirectory(Procfs(proc.root))
    assert directory.lookup(Process(10, 5)).task_id == ""
    assert directory.lookup(Process(10, 5), library=True).task_id == "pgrp:20@3"


def test_a_reused_pid_is_another_process(proc: FakeProc) -> None:
    proc.add(10, 5, "STALLWATCH_TASK_ID=old")
    directory = TaskDirectory(Procfs(proc.root))
    assert directory.lookup(Process(10, 5)).task_id == "old"
    proc.add(10, 99, "STALLWATCH_TASK_ID=new")
    assert directory.lookup(Process(10, 99)).task_id == "new"
    assert directory.lookup(Process(10, 7)) == Owner()


def test_a_process_that_is_gone_belongs_to_nobody(proc: FakeProc) -> None:
    assert owner(proc, 4242) == Owner()


def test_a_name_as_long_as_an_environment_allows_is_cut_and_stays_apart_from_others(
    proc: FakeProc,
) -> None:
    long = "x" * 100_000
    for pid, last in ((10, "a"), (11, "b")):
        proc.add(pid, 5, f"STALLWATCH_TASK_ID={long}{last} RANK={long}{last}")
    first, second = owner(proc, 10), owner(proc, 11)
    assert len(first.task_id) == len(first.rank) == 200
    assert first.task_id[:183] == "x" * 183
    assert first.task_id != second.task_id
