"""Whose count it is: under fork, exec, threads, reuse of pids, containers, and after the end."""

from __future__ import annotations

import functools
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent import wait_until
from tests.e2e.owner_jobs import LIBRARY, Job, Observer, build, holdings, holds_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., Job]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the probes need root"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("owner"))


@pytest.fixture
def observer() -> Iterator[Observer]:
    observer = Observer()
    assert observer.status.state != "off", observer.status
    yield observer
    observer.close()


@pytest.fixture
def start(program: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def run(task: str, *prefix: str, library: str = "", **environment: str) -> Job:
        jobs.append(Job(program, task, *prefix, library=library, **environment))
        return jobs[-1]

    yield run
    for job in jobs:
        job.end()


def name(what: str) -> str:
    """A task of our own: others run jobs on this machine, too."""
    return f"owner-{os.getpid()}-{what}"


def test_a_forked_child_counts_for_its_parents_rank_though_it_runs_nothing_new(
    observer: Observer, start: Start, program: Path
) -> None:
    task = name("fork")
    job = start(task, RANK="3")
    observer.attach(program.parent)
    child = job.fork(steps=4)
    observer.poll()
    assert observer.watched({job.pid, child}) == {job.pid, child}
    job.do("steps", 2)
    observer.flush()
    assert observer.steps(task) == {"3": 6}
    os.kill(job.pid, 9)
    job.process.wait()
    observer.flush()
    assert observer.attached(program.parent) == 1
    assert observer.steps(task) == {"3": 6}


def test_a_child_that_then_runs_a_static_program_lets_go_of_the_library(
    observer: Observer, start: Start, program: Path
) -> None:
    job = start(name("static"))
    observer.attach(program.parent)
    pid = job.fork(steps=1)
    observer.poll()
    assert observer.watched({pid}) == {pid}
    job.tell("exec", program.with_name("rest"))
    wait_for_program(job.pid, "rest")
    observer.flush()
    assert observer.watched({pid, job.pid}) == {pid}
    os.kill(pid, 9)
    # A zombie of a process that never waits for it: it has ended all the same.
    few = functools.partial(observer.few_attached, program.parent, 0)
    wait_until(few, "letting go", 10)
    assert observer.watched({pid, job.pid}) == set()
    assert Path(f"/proc/{pid}").exists()


def wait_for_program(pid: int, program: str) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/exe").readlink().name != program:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_fork_bomb_counts_for_its_rank_and_leaves_nothing_behind(
    observer: Observer, start: Start, program: Path
) -> None:
    task = name("bomb")
    job = start(task, RANK="0")
    other = start(name("bystander"), RANK="0")
    observer.attach(program.parent)
    job.do("bomb", 3, 1)
    observer.flush()
    before = holdings()
    job.tell("bomb", 1000, 3)
    job.tell("spawn", 1000, "/bin/true")
    polls = 0
    while not settled(job):
        observer.poll()
        polls += 1
        time.sleep(0.05)
    other.do("steps", 7)
    observer.flush()
    assert polls > 3
    assert observer.steps(task) == {"0": 3 + 3000}
    assert observer.steps(name("bystander")) == {"0": 7}
    assert observer.watched({job.pid, other.pid}) == {job.pid, other.pid}
    assert holds_again(before, observer), f"{holdings()}, before: {before}"


def settled(job: Job) -> bool:
    """Whether both orders were answered."""
    import select

    assert job.process.stdout is not None
    ready, _, _ = select.select([job.process.stdout], [], [], 0)
    if ready and job._line() == "done":
        job.answers = getattr(job, "answers", 0) + 1  # type: ignore[attr-defined]
    return getattr(job, "answers", 0) == 2


def test_a_pid_that_is_used_again_is_another_process_with_counts_of_its_own(
    observer: Observer, start: Start, program: Path
) -> None:
    old, new = name("old"), name("new")
    first = start(old, RANK="0")
    second = start(new, RANK="0")
    observer.attach(program.parent)
    first.do("steps", 5)
    observer.flush()
    first.do("steps", 2)
    first.end()
    observer.poll()
    child = second.fork(steps=3, pid=first.pid)
    assert child == first.pid
    observer.flush()
    assert observer.steps(new) == {"0": 3}
    assert observer.seen[old, "0"] == 5 + 2
    assert old not in observer.aggregator.tasks()
    assert observer.watched({child}) == {child}


def test_a_pid_that_is_used_again_between_two_polls_joins_as_another_process(
    observer: Observer, start: Start
) -> None:
    from probes.libraries.shared import subscribe

    first, second = start(name("old")), start(name("new"))
    libraries = subscribe(LIBRARY)
    try:
        before = {each.pid: each for each in libraries.poll().joined}
        first.end()
        time.sleep(0.05)  # start times are in ticks of 10 ms
        child = second.fork(pid=first.pid)
        changes = libraries.poll()
    finally:
        libraries.close()
    assert before[first.pid] in changes.gone
    (joined,) = [each for each in changes.joined if each.pid == child]
    assert joined.start_ticks > before[first.pid].start_ticks


def test_a_job_killed_in_mid_step_ends_with_all_it_did(
    observer: Observer, start: Start, program: Path
) -> None:
    task = name("killed")
    observer.attach(program.parent, 0)
    before = holdings()
    job = start(task, RANK="1")
    observer.attach(program.parent)
    assert holdings() != before
    job.do("steps", 9)
    os.kill(job.pid, 9)
    os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
    observer.flush()
    assert observer.seen[task, "1"] == 9
    observer.flush()  # a staleness marker follows the last count
    assert observer.steps(task) == {}
    ended = {each.get("task_id") for each in observer.stale if each.name == "steps_total"}
    assert task in ended
    assert observer.attached(program.parent) == 0
    assert holds_again(before, observer), f"{holdings()}, before: {before}"


def test_a_library_upgraded_underneath_a_running_job_is_attached_beside_the_old_one(
    observer: Observer, start: Start, tmp_path: Path, program: Path
) -> None:
    library = tmp_path / LIBRARY
    shutil.copy(program.with_name(LIBRARY), library)
    old, new = name("before"), name("after")
    first = start(old, RANK="0", library=str(library))
    observer.attach(tmp_path)
    fresh = tmp_path / "new"
    shutil.copy(library, fresh)
    fresh.replace(library)
    second = start(new, RANK="0", library=str(library))
    observer.attach(tmp_path, 2)
    first.do("steps", 4)
    second.do("steps", 6)
    observer.flush()
    assert (observer.steps(old), observer.steps(new)) == ({"0": 4}, {"0": 6})
    first.end()
    observer.flush()
    assert observer.attached(tmp_path) == 1
    second.do("steps", 1)
    observer.flush()
    assert observer.steps(new) == {"0": 7}
    second.end()
    observer.flush()
    assert observer.attached(tmp_path) == 0


def test_a_process_that_unloads_the_library_is_let_go_and_taken_up_again(
    observer: Observer, start: Start, program: Path
) -> None:
    task = name("unload")
    job = start(task, RANK="0")
    observer.attach(program.parent)
    job.do("steps", 2)
    observer.flush()
    job.do("unload")
    observer.flush()
    assert observer.watched({job.pid}) == set()
    assert observer.attached(program.parent) == 0
    assert observer.steps(task) == {"0": 2}
    job.do("load", program.with_name(LIBRARY))
    observer.attach(program.parent)
    job.do("steps", 3)
    observer.flush()
    assert observer.steps(task) == {"0": 5}


def test_exec_with_a_rank_in_the_environment_makes_the_process_that_rank(
    observer: Observer, start: Start, program: Path
) -> None:
    task = name("exec")
    job = start(task)
    observer.attach(program.parent)
    job.do("steps", 2)
    observer.flush()
    assert observer.steps(task) == {"": 2}
    job.tell("execenv", "RANK=5")
    assert job._line() == str(job.pid)
    observer.flush()
    job.do("steps", 3)
    observer.flush()
    assert observer.steps(task) == {"": 2, "5": 3}
    assert [each["rank"] for each in observer.info(task)] == ["5"]


def test_a_job_whose_main_thread_ended_goes_on_and_its_end_is_seen(
    observer: Observer, start: Start, program: Path
) -> None:
    task = name("threads")
    job = start(task, RANK="0")
    observer.attach(program.parent)
    assert job.do("threads", 2) == "done"
    observer.flush()
    assert observer.watched({job.pid}) == {job.pid}
    assert observer.attached(program.parent) == 1
    assert observer.info(task)
    job.end()
    observer.flush()
    assert observer.attached(program.parent) == 0


def test_processes_that_come_and_go_while_they_are_looked_at_do_no_harm(
    observer: Observer, start: Start, program: Path
) -> None:
    jobs = [start(name(f"flux{i}"), RANK="0") for i in range(3)]
    observer.attach(program.parent)
    for round_ in range(10):
        for job in jobs:
            job.tell("bomb", 20, 1)
        for _ in range(round_):
            observer.poll()
        for job in jobs:
            assert job._line() == "done"
    observer.flush()
    assert [observer.steps(name(f"flux{i}")) for i in range(3)] == [{"0": 200}] * 3
    for job in jobs:
        job.end()
    observer.flush()
    assert observer.attached(program.parent) == 0


class Pod:
    """A folder that becomes a container: its own copy of everything, a kubepods-shaped cgroup."""

    def __init__(self, folder: Path, program: Path, number: int) -> None:
        self.uid = f"6b1f2c3d-0000-4a4a-9b9b-{os.getpid():08x}{number:04x}"
        self.container = f"{number:x}{os.getpid():x}".ljust(64, "0")
        self.name = f"train-{number}"
        self.namespace = f"team-{number}"
        self.files = folder / f"pod{number}"
        self.files.mkdir()
        for each in ("owner", LIBRARY):
            shutil.copy(program.with_name(each), self.files)
        (self.files / "namespace").write_text(self.namespace)
        (self.files / "hostname").write_text(f"{self.name}\n")
        mounts = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
        root = next(each for each in mounts if (each / "cgroup.controllers").exists())
        self.cgroup = root / f"kubepods-owner-{os.getpid()}-{number}/pod{self.uid}"
        self.cgroup = self.cgroup / self.container
        self.cgroup.mkdir(parents=True)

    def prefix(self, where: str) -> list[str]:
        """Enter the cgroup and the namespaces; the files lie at `where` in each container."""
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        script = " && ".join(
            (
                f"mount -t tmpfs none {where}",
                f"cp {self.files}/* {where}",
                "mount -t tmpfs none /run",
                f"mkdir -p {account}",
                f"cp {where}/namespace {account}",
                f"mount --bind {where}/hostname /etc/hostname",
                'exec "$@"',
            )
        )
        enter = f"echo $$ > {self.cgroup}/cgroup.procs"
        inner = f"unshare --mount --pid --net --kill-child --mount-proc sh -ec '{script}' sh"
        return ["sh", "-ec", f'{enter} && exec {inner} "$@"', "sh"]

    def remove(self) -> None:
        """Take the cgroup away, once its processes are gone."""
        deadline = time.monotonic() + 5
        for each in (self.cgroup, self.cgroup.parent, self.cgroup.parent.parent):
            while True:
                try:
                    each.rmdir()
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)


def test_two_containers_with_their_own_copies_of_a_library_are_told_apart(
    observer: Observer, start: Start, program: Path, tmp_path: Path
) -> None:
    where = tmp_path / "opt"
    where.mkdir()
    pods = [Pod(tmp_path, program, number) for number in (1, 2)]
    jobs: list[Job] = []
    try:
        for pod in pods:
            library = f"{where}/{LIBRARY}"
            job = Job(where / "owner", "", *pod.prefix(str(where)), library=library, RANK="0")
            jobs.append(job)
            assert job.pid < 20, "a pid of its own namespace"
        observer.attach(where, 2)
        for job, count in zip(jobs, (3, 8), strict=True):
            job.do("steps", count)
            job.do("bomb", 5, 1)
        observer.flush()
        for pod, count in zip(pods, (3, 8), strict=True):
            task = f"pod:{pod.uid}"
            assert observer.steps(task) == {"0": count + 5}
            (info,) = observer.info(task)
            assert info["container"] == pod.container[:12]
            assert (info["pod"], info["pod_uid"]) == (pod.name, pod.uid)
            assert info["namespace"] == pod.namespace
        for left in (1, 0):
            jobs[left].end()
            few = functools.partial(observer.few_attached, where, left)
            wait_until(few, "letting go", 10)
            assert observer.attached(where) == left
    finally:
        for job in jobs:
            job.end()
        for pod in pods:
            pod.remove()


def test_everything_is_given_back_when_the_last_probe_stops(start: Start) -> None:
    Observer().close()  # what is loaded once and stays (libbcc, caches) is loaded
    before = holdings()
    observer = Observer()
    job = start(name("given-back"))
    job.do("steps", 1)
    observer.flush()
    assert holdings() - before, "something is held while it runs"
    job.end()
    observer.close()
    assert holds_again(before, observer), f"{holdings()}, before: {before}"
