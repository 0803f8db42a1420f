"""Real PyTorch jobs that meet a hazard compute and end beside the agent as they do without it.

Two ranks on Gloo, each hazard once before any agent runs and once beside one with all its probes,
which another job keeps attached: exit statuses and outputs are the same, losses to the last bit.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.aggregate.procfs import Procfs
from probes.elf.entries import entry_offset
from probes.elf.image import Image
from probes.elf.symbols import find_functions
from probes.libraries.maps import LibraryNames
from tests.e2e.agent import AgentProcess, fast_packs, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes need root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is missing (make e2e)"
    ),
]

WORKLOAD = Path(__file__).with_name("workloads") / "hazards.py"
CAUGHT, KILLED = 3, -signal.SIGKILL
# Exit statuses of the ranks, and a metric of rank 0 that shows that the job was watched.
HAZARDS = {
    "timeout": ([CAUGHT, 0], 'gloo_failures_total{op="recv"}', 1),
    "connect": ([CAUGHT, 0], 'gloo_failures_total{op="connect"}', 1),
    "killed": ([CAUGHT, KILLED], "steps_total", 31),
    "forks": ([0, 0], "steps_total", 60),
    "signals": ([0, 0], "steps_total", 60),
    "profiled": ([0, 0], "steps_total", 60),
}
TORCH, FINALIZE = "libtorch_cpu.so", "c10d::Reducer::finalize_backward"
# Once a step, and no probe of ours is there.
PREPARE = "c10d::Reducer::prepare_for_backward"


@dataclass
class Job:
    """Two ranks of the workload on the loopback."""

    kind: str
    folder: Path
    task_id: str
    ranks: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        self.folder.mkdir()
        environment = {
            **os.environ,
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCHELASTIC_RUN_ID": self.task_id,
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(WORKLOAD), self.kind, str(self.folder)]
        for rank in (0, 1):
            out, err = (self.folder / f"{rank}.{end}" for end in ("out", "err"))
            with out.open("w") as output, err.open("w") as errors:
                own = environment | {"RANK": str(rank)}
                self.ranks.append(subprocess.Popen(command, env=own, stdout=output, stderr=errors))

    def statuses(self) -> list[int]:
        return [rank.wait(300) for rank in self.ranks]

    def outputs(self) -> list[str]:
        return [(self.folder / f"{rank}.out").read_text() for rank in (0, 1)]

    def steps(self) -> int:
        """Steps that both ranks have done, of `traced`."""
        files = [self.folder / f"steps{rank}" for rank in (0, 1)]
        return min(int(f.read_text() or 0) if f.exists() else 0 for f in files)

    def let_end(self) -> None:
        """Let `traced` come to its end."""
        (self.folder / "done").touch()

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Job]]:
    """Start jobs by kind; what is left of them is killed."""
    folder = tmp_path_factory.mktemp("hazards")
    jobs: list[Job] = []

    def run(kind: str) -> Job:
        name = f"{kind}-{len(jobs)}"
        jobs.append(Job(kind, folder / name, f"hazards-{os.getpid()}-{name}"))
        jobs[-1].start()
        return jobs[-1]

    yield run
    for job in jobs:
        job.kill()


@pytest.fixture(scope="module")
def unwatched(start: Callable[[str], Job]) -> dict[str, tuple[list[int], list[str]]]:
    """How each job ended before any agent ran."""
    ended = {}
    for kind in (*HAZARDS, "traced"):  # one by one: a collective may wait for so long only
        job = start(kind)
        if kind == "traced":
            job.let_end()
        ended[kind] = job.statuses(), job.outputs()
    return ended


@pytest.fixture(scope="module")
def agent(
    unwatched: dict[str, tuple[list[int], list[str]]],
    start: Callable[[str], Job],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[AgentProcess]:
    """With every probe attached to PyTorch, as long as the fixture lasts."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / "rules").mkdir()
    agent = AgentProcess(folder / "agent", fast_packs(folder / "rules"))
    # All the time, however busy the machine is.
    agent.probes = {"gloo": {"budget": {"enabled": False}}}
    try:
        agent.start()
        anchor = start("traced")
        # Waits of Gloo's and of PyTorch's are seen: what comes after them in the order, too.
        for metric in ("comm_wait_seconds_total", "gloo_wait_seconds_total", "gloo_calls_total"):
            wait_until(lambda metric=metric: total(agent, anchor, metric) > 0, metric)  # type: ignore[misc]
        yield agent
        anchor.kill()
    finally:
        status = agent.stop()
    assert status == 0
    assert "Traceback" not in agent.log


def total(agent: AgentProcess, job: Job, metric: str) -> float:
    """A counter of rank 0 of a job that runs, or has ended lately."""
    selector = f'{{task_id="torchrun:{job.task_id}", rank="0"}}'
    name, _, more = metric.partition("{")
    labels = selector if not more else f"{selector[:-1]}, {more}"
    return sum(v for _, v in agent.query(f"last_over_time({name}{labels}[10m])"))


@pytest.mark.parametrize("kind", HAZARDS)
def test_a_job_computes_and_ends_as_without_the_agent(
    agent: AgentProcess,
    unwatched: dict[str, tuple[list[int], list[str]]],
    start: Callable[[str], Job],
    kind: str,
) -> None:
    statuses, metric, least = HAZARDS[kind]
    assert unwatched[kind][0] == statuses
    job = start(kind)
    assert (job.statuses(), job.outputs()) == unwatched[kind]
    wait_until(lambda: total(agent, job, metric) >= least, f"{metric} of {kind}", 30)


def test_what_failed_last_is_told_while_the_parent_has_not_asked_for_the_status(
    agent: AgentProcess, start: Callable[[str], Job]
) -> None:
    job = start("connect")
    rank = job.ranks[0].pid
    # Its status is not asked for, so that it stays to be seen.
    wait_until(lambda: (stat := Procfs().stat(rank)) is not None and stat.ended, "the end")
    metric = HAZARDS["connect"][1]
    wait_until(lambda: total(agent, job, metric) >= 1, metric, 30)
    assert job.statuses() == HAZARDS["connect"][0]
    assert total(agent, job, metric) == 1


@contextmanager
def beside(*command: str | Path, seconds: float = 3.0) -> Iterator[None]:
    """A tool that runs until it is interrupted, for a while."""
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        time.sleep(seconds)
        assert tool.poll() is None, f"{command[0]} ended by itself"
    finally:
        tool.send_signal(signal.SIGINT)
        tool.wait(60)


def place_of(function: str, pid: int) -> tuple[Path, int, int]:
    """The library of a function of PyTorch, the offset in it, the address in a process."""
    (mapped,) = LibraryNames(TORCH).mapped_by(pid)
    with Image(mapped.path) as image:
        offset = entry_offset(image, find_functions(image, function)[0].address)
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        region, _, begin, *_, path = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in region.split("-"))
        place = low + offset - int(begin, 16)
        if path == mapped.path and low <= place < high:
            return Path(mapped.path), offset, place
    raise AssertionError(f"{mapped.path} of {pid} has no {function}")


def debug(pid: int, *commands: str) -> str:
    """gdb comes, does something and goes. It need not read symbols."""
    quick = ("-batch", "-nx", "-iex", "set auto-solib-add off", "-p", str(pid))
    more = [word for command in (*commands, "detach") for word in ("-ex", command)]
    done = subprocess.run(
        ["gdb", *quick, *more], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def debugger(job: Job) -> None:
    pid = job.ranks[0].pid
    debug(pid, "info threads")
    _, _, place = place_of(PREPARE, pid)
    hits = debug(pid, f"break *{place:#x}", "continue", "continue", "continue", "delete")
    assert hits.count("hit Breakpoint 1") == 3


def system_calls(job: Job) -> None:
    with beside("strace", "-f", "-o", job.folder / "strace", "-p", str(job.ranks[1].pid)):
        pass
    assert (job.folder / "strace").stat().st_size


def sampler(job: Job) -> None:
    data = job.folder / "perf.data"
    with beside("perf", "record", "-g", "-o", data, "-p", str(job.ranks[0].pid)):
        pass
    assert data.stat().st_size


def second_tool(job: Job) -> None:
    """Entry probes of another tool on the same instruction."""
    library, offset, _ = place_of(FINALIZE, job.ranks[0].pid)
    script = f'uprobe:"{library}":{offset} {{ @hits = count(); }}'
    counted = job.folder / "bpftrace"
    with beside("bpftrace", "--unsafe", "-o", counted, "-e", script, seconds=8.0):
        pass
    hits = counted.read_text().partition("@hits:")[2].split()
    assert hits
    assert int(hits[0]) > 0


TOOLS: Sequence[tuple[str, Callable[[Job], None]]] = (
    ("gdb", debugger),
    ("strace", system_calls),
    ("perf", sampler),
    ("bpftrace", second_tool),
)


@pytest.mark.parametrize(("tool", "look"), TOOLS, ids=[name for name, _ in TOOLS])
def test_a_job_that_another_tool_looks_into_computes_the_same_and_loses_no_step(
    agent: AgentProcess,
    unwatched: dict[str, tuple[list[int], list[str]]],
    start: Callable[[str], Job],
    tool: str,
    look: Callable[[Job], None],
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is missing (make e2e)")
    job = start("traced")
    wait_until(lambda: job.steps() >= 5, "the first steps")
    look(job)
    before = job.steps()
    wait_until(lambda: job.steps() >= before + 5, f"steps after {tool}")
    job.let_end()
    assert (job.statuses(), job.outputs()) == unwatched["traced"]
    done = job.steps() + 60
    wait_until(lambda: total(agent, job, "steps_total") >= done, "the steps", 30)
    assert total(agent, job, "steps_total") == done
