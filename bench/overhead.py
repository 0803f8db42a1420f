"""What the agent costs a training job: `make overhead`, as root, on a machine with PyTorch.

One real DistributedDataParallel run (two ranks, Gloo, fixed seed and batch). Beside it the whole
agent is started and stopped again and again; steps with it are compared with steps without it in
neighbouring slices. Between these pairs lie as many A/A pairs, in which nothing is started: what
they show is what the method and the machine make of no effect at all. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from probes.overhead.agent import TrialAgent, bpf_users, free_port
from probes.overhead.errors import OverheadError
from probes.overhead.table import machine
from probes.overhead.within import Turns, step_ratio

if TYPE_CHECKING:
    from probes.overhead.pairs import Ratio

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = ROOT / "tests" / "e2e" / "workloads" / "ddp.py"
# Starting and stopping take this long at least, and as long where nothing is started.
START_SECONDS, STOP_SECONDS = 8.0, 3.0


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=40, help="of each kind; even")
    parser.add_argument("--slice", type=float, default=5.0, metavar="SECONDS", dest="seconds")
    parser.add_argument("--dim", type=int, default=512, help="width of the model's layers")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pin", action="store_true", help="each rank to a CPU of its own")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    parser.add_argument("--limit", type=float, default=1.01, help="fail above this upper bound")
    return parser.parse_args()


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
            command = (options.python, str(WORKLOAD), "--steps", "0", *shape)
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
                raise OverheadError("overhead: a rank of the training job has ended")
            if time.monotonic() > deadline:
                raise OverheadError("overhead: the training job makes no step")
            time.sleep(0.2)

    def kill(self) -> None:
        """End both ranks."""
        for rank in self._ranks:
            rank.kill()
            rank.wait()


class Watcher(TrialAgent):
    """The whole agent with all its probes; notes who else has BPF programs here."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slices = self.shared_slices = 0

    def first_start(self) -> float:
        """Start and stop once; the seconds to give to each start, warm ones being shorter."""
        began = time.monotonic()
        self.start()
        taken = time.monotonic() - began
        self.stop()
        return max(START_SECONDS, 1.3 * taken)

    def measure(self, seconds: float) -> None:
        """Let a slice pass; fail where the steps are not seen."""
        self.slices += 1
        self.shared_slices += bool(bpf_users() - {self.pid})
        super().measure(seconds)

    def stop(self) -> None:
        """Stop, and see that it had counted the job's steps."""
        waited = bool(self.pid) and bool(self.cpu_seconds)
        seen = self.metrics('stallwatch_probe_produced_total{probe="torch_step"') if waited else []
        super().stop()
        if waited and not sum(value for _, value in seen):
            raise OverheadError(f"overhead: the agent saw nothing of the job:\n{self.tail()}")


def tell(done: int, pairs: int) -> None:
    """Progress, on the terminal."""
    print(f"\r{done} of {pairs} pairs", end="", file=sys.stderr, flush=True)
    if done >= pairs:
        print(file=sys.stderr)


def row(name: str, ratio: Ratio) -> str:
    """A line of the table."""
    return f"| {name} | {ratio.value:.4f} | {ratio.low:.4f} to {ratio.high:.4f} | {ratio.pairs} |"


def measure(options: argparse.Namespace) -> Ratio:
    """Run, print the table; the ratio with the agent."""
    print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory(prefix="stallwatch-overhead-") as folder:
        agent = Watcher(Path(folder))
        start_seconds = agent.first_start()
        job = Job(Path(folder), options)
        turns = Turns(agent, options.seconds, start_seconds, STOP_SECONDS, job.cpu_seconds)
        try:
            job.wait_past(time.monotonic() + 3)
            turns.run(options.pairs, lambda done: tell(done, options.pairs))
            job.wait_past(time.monotonic())
            ends = job.ends()
        finally:
            agent.kill()
            job.kill()
    rows = [
        (f"{name}, {kind}", step_ratio(turns.pairs, ends, idle=idle, cpu=cpu))
        for name, cpu in (("median step", False), ("CPU time of a step", True))
        for kind, idle in (("agent on / off", False), ("A/A", True))
    ]
    spent, passed = (sum(each) for each in zip(*agent.cpu_seconds, strict=True))
    print(f"load at the end: {'/'.join(f'{each:.1f}' for each in os.getloadavg())}")
    print(f"slices beside another user of BPF: {agent.shared_slices} of {agent.slices}")
    print(f"step: {1000 * np.median(np.diff(ends[0])):.2f} ms, {len(ends[0])} steps")
    print(f"probes: {', '.join(agent.attached)}")
    print(
        f"agent: {spent / passed:.4f} CPU seconds a second, {max(agent.rss_bytes) / 2**20:.0f} MiB"
    )
    print("\n| | ratio | 95 % interval | pairs |\n|---|---|---|---|")
    for name, ratio in rows:
        if ratio is None:
            raise OverheadError(f"overhead: no pair of slices had steps: {name}")
        print(row(name, ratio))
    result = rows[0][1]
    if result is None:
        raise OverheadError("overhead: no pair of slices had steps")
    return result


def main() -> int:
    """Measure; 1 when the upper bound is above the limit, 2 when nothing could be measured."""
    options = arguments()
    if os.geteuid() != 0:
        print("overhead: uprobes need root; mend: sudo make overhead", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the job must not outlive this
    try:
        ratio = measure(options)
    except OverheadError as error:
        print(error, file=sys.stderr)
        return 2
    return int(ratio.high > options.limit)


if __name__ == "__main__":
    sys.exit(main())
