"""Everything on, for an hour: `make endurance`, as root. Is anything lost, and does memory grow?

The agent runs with every probe and the shipped rules, as it would on a node. Beside it run a real
DistributedDataParallel job (two ranks, Gloo), jobs that call the stand-ins for CUDA and NCCL, and a
churn of short processes, kills and connections. At the end a line per probe and stream says what
the kernel counted, what arrived and what was lost, and the agent's memory is compared over time.
The live window fills for two hours by design, so what its samples hold is told apart. The turn of
an hour, when the recording's journal becomes Parquet, should lie within the run.

Exit status 1 when drift is above --drift, or memory without the window's samples grew by more than
--growth between the second quarter and the last.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rules.packs import shipped
from tests.e2e.agent import AgentProcess, free_port
from tests.probes.cuda import building as cuda
from tests.probes.job import Job
from tests.probes.nccl import building as nccl

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = ROOT / "tests" / "e2e" / "workloads" / "ddp.py"
SAMPLE_SECONDS = 10.0
# After the load has ended, so that what is in flight arrives.
SETTLE_SECONDS = 25.0
LAUNCHES, SYNCS, COLLECTIVES = 5_000, 200, 50
# A kill every so many short processes.
KILL_EVERY = 50


@dataclass(frozen=True, slots=True)
class Stream:
    """What became of one stream of a probe."""

    probe: str
    stream: str
    produced: float
    consumed: float
    lost: float

    @property
    def drift(self) -> float:
        """The share that did not arrive; races may make it a little negative."""
        return 1 - self.consumed / self.produced if self.produced else 0.0


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--drift", type=float, default=0.001, help="the most that may be missing")
    parser.add_argument("--growth", type=float, default=0.05, help="the most memory may grow")
    parser.add_argument(
        "--job-python", default=sys.executable, help="a Python with PyTorch, for the training job"
    )
    return parser.parse_args()


def main() -> int:
    """Run, and print the tables."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="stallwatch-endurance-") as name:
        folder = Path(name)
        agent = AgentProcess(folder / "agent", list(shipped()), seconds=10)
        try:
            agent.start()
            with load(folder, options.job_python):
                looks = watch(agent, options.minutes * 60)
            time.sleep(SETTLE_SECONDS)
            streams = read_streams(agent)
            sys.stdout.write(agent.get("/api/v1/status/probes") + "\n")
        finally:
            agent.stop()
    return report(streams, looks, options)


@contextlib.contextmanager
def load(folder: Path, python: str) -> Iterator[None]:
    """Jobs of every kind, until the end of the block."""
    stopping = threading.Event()
    for library in ("cuda", "nccl"):
        (folder / library).mkdir()
    threads = [
        threading.Thread(target=train, args=(python, stopping)),
        threading.Thread(target=call_cuda, args=(folder / "cuda", stopping)),
        threading.Thread(target=call_nccl, args=(folder / "nccl", stopping)),
        threading.Thread(target=churn, args=(stopping,)),
        threading.Thread(target=connect, args=(stopping,)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def train(python: str, stopping: threading.Event) -> None:
    """Two ranks of a real training job, a new one every five minutes."""
    while not stopping.is_set():
        common = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCHELASTIC_RUN_ID": "endurance",
            "OMP_NUM_THREADS": "1",
        }
        # One rank is late, so that the other waits, and neither takes a core of its own.
        late = ["--sleep-rank", "0", "--sleep-before-backward", "0.1"]
        command = [python, str(WORKLOAD), "--steps", "0", *late]
        ranks = [
            subprocess.Popen(
                command,
                env={**os.environ, **common, "RANK": str(rank)},
                stderr=subprocess.DEVNULL,
            )
            for rank in (0, 1)
        ]
        stopping.wait(300)
        for rank in ranks:
            rank.kill()
            rank.wait()


def call_cuda(folder: Path, stopping: threading.Event) -> None:
    """Launches and synchronises in one process, a new one every two minutes."""
    job = cuda.build(folder)
    environment = {"STALLWATCH_TASK_ID": "cuda", "RANK": "0"}
    prefix = ["env", *(f"{name}={value}" for name, value in environment.items())]
    while not stopping.is_set():
        running = Job(job, *prefix)
        for _ in range(12):
            if not stopping.is_set():
                running.do("load", 10, LAUNCHES, SYNCS, 1)
        running.end()


def call_nccl(folder: Path, stopping: threading.Event) -> None:
    """Collectives in four threads, a new communicator for each process."""
    job = nccl.build(folder)
    seed = 0
    while not stopping.is_set():
        seed += 1
        running = Job(job, STALLWATCH_TASK_ID="nccl", RANK="0")
        for slot in range(4):
            running.do("init", slot, 0, 1, seed)
        for _ in range(6):
            if not stopping.is_set():
                running.do("load", 20, COLLECTIVES, 4)
        running.end()


def churn(stopping: threading.Event) -> None:
    """Short processes, some of which are killed."""
    count = 0
    while not stopping.wait(0.1):
        count += 1
        if count % KILL_EVERY:
            subprocess.run(["true"], check=True)
            continue
        victim = subprocess.Popen(["sleep", "60"])
        victim.send_signal(signal.SIGKILL)
        victim.wait()


def connect(stopping: threading.Event) -> None:
    """Connections that carry something, that are refused and that are reset."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        while not stopping.wait(0.2):
            with socket.create_connection(server.getsockname()[:2]) as one:
                other, _ = server.accept()
                one.sendall(b"x" * 10_000)
                # Closed with data unread: a reset.
                other.close()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", 1), timeout=1).close()


@dataclass(frozen=True, slots=True)
class Look:
    """The agent at one moment: seconds since the start, bytes, CPU seconds, counts.

    `resident`: VmRSS. `window`: what the samples of the live window hold of it.
    """

    at: float
    resident: float
    window: float
    cpu_seconds: float
    files: int
    series: int


def watch(agent: AgentProcess, seconds: float) -> list[Look]:
    """A look every ten seconds."""
    assert agent.process is not None
    folder = Path(f"/proc/{agent.process.pid}")
    looks = []
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < seconds:
        status = (folder / "status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        ticks = (folder / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
        cpu_seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        resident = float(fields["VmRSS"].split()[0]) * 1024
        window, series = (
            read_own(agent, f"stallwatch_store_{what}") for what in ("bytes", "series")
        )
        files = len(list((folder / "fd").iterdir()))
        looks.append(Look(now, resident, window, cpu_seconds, files, int(series)))
        time.sleep(SAMPLE_SECONDS)
    return looks


def read_own(agent: AgentProcess, name: str) -> float:
    """A metric without labels on the agent's own /metrics."""
    lines = agent.get("/metrics").splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0.0)


def read_streams(agent: AgentProcess) -> list[Stream]:
    """Produced, consumed and lost of each probe and stream, since the start."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for counter in ("produced", "consumed", "lost"):
        for labels, value in agent.query(f"stallwatch_probe_{counter}_total"):
            key = (labels["probe"], labels.get("stream", ""))
            totals = found.setdefault(key, {})
            totals[counter] = totals.get(counter, 0.0) + value
    return [
        Stream(probe, stream, *(totals.get(each, 0.0) for each in ("produced", "consumed", "lost")))
        for (probe, stream), totals in sorted(found.items())
    ]


def in_megabytes(quarters: list[Any]) -> str:
    """The median of each."""
    return ", ".join(f"{np.median(quarter) / 1e6:.1f}" for quarter in quarters)


def report(streams: list[Stream], looks: list[Look], options: argparse.Namespace) -> int:
    """Print both tables; the exit status."""
    lines = ["| probe | stream | produced | consumed | lost | drift |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {each.probe} | {each.stream} | {each.produced:,.0f} | {each.consumed:,.0f} "
        f"| {each.lost:,.0f} | {each.drift:.4%} |"
        for each in streams
    ]
    resident = np.array([look.resident for look in looks])
    quarters = np.array_split(resident, 4)
    without = np.array_split(resident - np.array([look.window for look in looks]), 4)
    grown = float(np.median(without[3]) / np.median(without[1]) - 1)
    cpu = (looks[-1].cpu_seconds - looks[0].cpu_seconds) / (looks[-1].at - looks[0].at)
    lines += [
        "",
        f"resident memory, MB, median of each quarter of {options.minutes:.0f} minutes: "
        + in_megabytes(quarters)
        + f"; at most {resident.max() / 1e6:.1f}",
        f"without the samples of the live window: {in_megabytes(without)}",
        f"grown by {grown:.2%} from the second quarter to the last",
        f"series in the window: {looks[0].series} then, {looks[-1].series} now",
        f"CPU of one core: {cpu:.2%}; open files: {looks[0].files} then, {looks[-1].files} now",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    drift = max((each.drift for each in streams), default=0.0)
    return int(drift > options.drift or grown > options.growth)


if __name__ == "__main__":
    sys.exit(main())
