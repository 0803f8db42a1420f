"""What the agent costs a training job: `make overhead`, as root, on a machine with PyTorch.

One real DistributedDataParallel run (two ranks, Gloo, fixed seed and batch). Beside it the whole
agent is started and stopped again and again; steps with it are compared with steps without it in
neighbouring slices. Between these pairs lie as many A/A pairs, in which nothing is started: what
they show is what the method and the machine make of no effect at all. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.pairs import Ratio, Slice, compare, step_cpu_seconds, step_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = ROOT / "tests" / "e2e" / "workloads" / "ddp.py"
STALLWATCH = Path(sys.executable).with_name("stallwatch")
# Starting and stopping take this long whatever they take, and as long where nothing is started: a
# slice that began when the start was done would begin, on a busy machine, when a burst was over.
START_SECONDS, STOP_SECONDS = 8.0, 3.0
# Attaching takes 10 to 20 ms, detaching up to 300 ms; left out at least.
TRANSITION_SECONDS = 1.0
TICKS = os.sysconf("SC_CLK_TCK")
PROBES = ("tcp_retransmit", "torch_step", "process")


class Failure(Exception):  # noqa: N818 - it is said to the user, not handled
    """The measurement cannot be made or would mean nothing."""


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=40, help="of each kind; even")
    parser.add_argument("--slice", type=float, default=5.0, metavar="SECONDS", dest="seconds")
    parser.add_argument("--dim", type=int, default=512, help="width of the model's layers")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pin", action="store_true", help="each rank to a CPU of its own")
    parser.add_argument("--limit", type=float, default=1.03, help="fail above this upper bound")
    return parser.parse_args()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Job:
    """Two ranks that train until they are stopped."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._traces = [folder / f"rank{rank}.steps" for rank in (0, 1)]
        self._ranks: list[subprocess.Popen[bytes]] = []
        common = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCHELASTIC_RUN_ID": "overhead",
            "OMP_NUM_THREADS": "1",
        }
        shape = ("--dim", str(options.dim), "--batch", str(options.batch))
        for rank, trace in enumerate(self._traces):
            command = (sys.executable, str(WORKLOAD), "--steps", "0", *shape)
            process = subprocess.Popen(
                [*command, "--trace", str(trace)],
                env={**os.environ, **common, "RANK": str(rank)},
                stderr=subprocess.DEVNULL,
            )
            if options.pin:
                cpus = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(process.pid, {cpus[rank % len(cpus)]})
            self._ranks.append(process)

    def ends(self) -> list[np.ndarray]:
        """Per rank float64[steps]: when each step ended, in seconds of CLOCK_MONOTONIC."""
        found = []
        for trace in self._traces:
            data = trace.read_bytes() if trace.exists() else b""
            found.append(np.frombuffer(data[: len(data) // 8 * 8]))
        return found

    def cpu_seconds(self) -> float:
        """What all threads of both ranks have used."""
        spent = 0
        for rank in self._ranks:
            for thread in Path(f"/proc/{rank.pid}/task").iterdir():
                with contextlib.suppress(OSError):  # it has ended
                    spent += int((thread / "schedstat").read_text().split()[0])
        return spent / 1e9

    def wait_past(self, monotonic: float) -> None:
        """Until both ranks have ended a step after a time."""
        deadline = time.monotonic() + 120
        while not all(len(ends) and ends[-1] > monotonic for ends in self.ends()):
            if any(rank.poll() is not None for rank in self._ranks):
                raise Failure("a rank of the training job has ended")
            if time.monotonic() > deadline:
                raise Failure("the training job makes no step")
            time.sleep(0.2)

    def kill(self) -> None:
        """End both ranks."""
        for rank in self._ranks:
            rank.kill()
            rank.wait()


@dataclass
class Agent:
    """`stallwatch run` with the shipped rules and nothing configured, started and stopped."""

    folder: Path
    cpu_seconds: list[tuple[float, float]] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    slices: int = 0
    shared_slices: int = 0
    hits: float = 0.0
    _process: subprocess.Popen[bytes] | None = None
    _url: str = ""

    def start(self) -> None:
        """Start; returns when all probes are attached."""
        config = self.folder / "stallwatch.yaml"
        config.write_text("{}\n")
        listen = f"127.0.0.1:{free_port()}"
        self._url = f"http://{listen}"
        with (self.folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(STALLWATCH), "run", "--config", str(config), "--listen", listen),
                    *("--state", str(self.folder / "state")),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while not all(self._metric(f'stallwatch_probe_up{{probe="{name}"}}') for name in PROBES):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the agent did not attach:\n{self._tail()}")
            time.sleep(0.1)

    def measure(self, seconds: float) -> None:
        """Let a slice pass; note what the agent uses, and who else has BPF programs here."""
        self.slices += 1
        self.shared_slices += bool(bpf_users() - {self._process and self._process.pid})
        if self._process is None:
            time.sleep(seconds)
            return
        stat, status = (Path(f"/proc/{self._process.pid}/{name}") for name in ("stat", "status"))
        before = _cpu_ticks(stat.read_text())
        time.sleep(seconds)
        self.cpu_seconds.append(((_cpu_ticks(stat.read_text()) - before) / TICKS, seconds))
        resident = next(line for line in status.read_text().splitlines() if "VmRSS" in line)
        self.rss_bytes.append(int(resident.split()[1]) * 1024)

    def stop(self) -> None:
        """Stop, and see that it had counted the job's steps."""
        if self._process is None:
            return
        hits = self._metric('stallwatch_probe_produced_total{probe="torch_step"')
        self.hits += hits
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._process = None
        if not hits:
            raise Failure(f"the agent saw nothing of the job:\n{self._tail()}")

    def kill(self) -> None:
        """End it in any case."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _metric(self, start: str) -> float:
        try:
            with urllib.request.urlopen(f"{self._url}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        lines = (line for line in text.splitlines() if line.startswith(start))
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def _tail(self) -> str:
        return "\n".join((self.folder / "agent.log").read_text().splitlines()[-12:])


def bpf_users() -> set[int]:
    """Processes that hold BPF programs: their probes may cost the job something at all times."""
    found = set()
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if "bpf-prog" in str(fd.readlink()):
                found.add(int(fd.parts[2]))
    return found


def _cpu_ticks(stat: str) -> int:
    """User and system time: fields 14 and 15; the name in parentheses may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def take(seconds: float, action: Callable[[], None]) -> None:
    """Do something; return a multiple of `seconds` later."""
    began = time.monotonic()
    action()
    taken = time.monotonic() + TRANSITION_SECONDS - began
    time.sleep(math.ceil(taken / seconds) * seconds - taken + TRANSITION_SECONDS)


def run_slices(
    agent: Agent, job: Job, options: argparse.Namespace
) -> list[tuple[bool, Slice, Slice]]:
    """Two pairs with the agent (off on, on off), then two without (off off, off off), and again.

    Returns (is an A/A pair, first kind of slice, second kind): in an A/A pair both ran without.
    """
    found = []
    for round_ in range(options.pairs // 2):
        for idle in (False, True) if round_ % 2 == 0 else (True, False):
            slices: list[Slice] = []
            for second in (False, True, True, False):
                if second and not slices[-1].treated:
                    take(START_SECONDS, (lambda: None) if idle else agent.start)
                elif slices and not second:
                    take(STOP_SECONDS, agent.stop)
                start, before = time.monotonic(), job.cpu_seconds()
                agent.measure(options.seconds)
                spent = job.cpu_seconds() - before
                slices.append(Slice(start, time.monotonic(), second, spent))
            found += [(idle, slices[0], slices[1]), (idle, slices[3], slices[2])]
        print(f"\r{2 * (round_ + 1)} of {options.pairs} pairs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def machine() -> str:
    """The machine in a line."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line for line in info.splitlines() if line.startswith("model name")), ":?")
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    name = model.partition(":")[2].strip()
    return f"{name}, {os.cpu_count()} CPUs, {platform.release()}, load {load}"


def row(name: str, ratio: Ratio) -> str:
    """A line of the table."""
    return f"| {name} | {ratio.value:.4f} | {ratio.low:.4f} to {ratio.high:.4f} | {ratio.pairs} |"


def measure(options: argparse.Namespace) -> Ratio:
    """Run, print the table; the ratio with the agent."""
    print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory(prefix="stallwatch-overhead-") as folder:
        agent = Agent(Path(folder))
        job = Job(Path(folder), options)
        try:
            job.wait_past(time.monotonic() + 3)
            results = run_slices(agent, job, options)
            job.wait_past(time.monotonic())
            ends = job.ends()
        finally:
            agent.kill()
            job.kill()
    ratios = {}
    for idle in (False, True):
        for kind in (step_seconds, step_cpu_seconds):
            pairs = [(kind(a, ends), kind(b, ends)) for each, a, b in results if each == idle]
            ratios[idle, kind] = compare(pairs)
    spent, passed = (sum(each) for each in zip(*agent.cpu_seconds, strict=True))
    print(f"load at the end: {'/'.join(f'{each:.1f}' for each in os.getloadavg())}")
    print(f"slices beside another user of BPF: {agent.shared_slices} of {agent.slices}")
    print(f"step: {1000 * np.median(np.diff(ends[0])):.2f} ms, {len(ends[0])} steps")
    print(
        f"agent: {spent / passed:.4f} CPU seconds a second, {max(agent.rss_bytes) / 2**20:.0f} MiB"
    )
    print("\n| | ratio | 95 % interval | pairs |\n|---|---|---|---|")
    print(row("median step, agent on / off", ratios[False, step_seconds]))
    print(row("median step, A/A", ratios[True, step_seconds]))
    print(row("CPU time of a step, agent on / off", ratios[False, step_cpu_seconds]))
    print(row("CPU time of a step, A/A", ratios[True, step_cpu_seconds]))
    return ratios[False, step_seconds]


def main() -> int:
    """Measure; 1 when the upper bound is above the limit, 2 when nothing could be measured."""
    options = arguments()
    if os.geteuid() != 0:
        print("overhead: uprobes need root; mend: sudo make overhead", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the job must not outlive this
    try:
        ratio = measure(options)
    except Failure as failure:
        print(f"overhead: {failure}", file=sys.stderr)
        return 2
    return int(ratio.high > options.limit)


if __name__ == "__main__":
    sys.exit(main())
