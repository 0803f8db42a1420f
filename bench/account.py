"""What the probes take from a training job by the kernel's own count: `make bench-account`.

As root. The same job and agent as `make overhead`. Instead of comparing steps, whose noise on a
virtual machine is many times what is looked for, it adds up what the probes did to the job in each
slice: how often each of their BPF programs ran, for how long, and what the traps before them cost,
as measured on this machine. What it cannot see is what a trap does to caches. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.overhead import Job
from probes.bpf import syscall
from probes.budget.bounds import student
from probes.overhead.agent import TrialAgent
from probes.overhead.errors import OverheadError
from probes.overhead.table import machine
from rules.slotted import dataclass

# enum bpf_prog_type: uprobes are loaded as kprobes.
KPROBE, TRACEPOINT, RAW_TRACEPOINT, PERF_EVENT = 2, 5, 17, 7
KINDS = {
    KPROBE: "uprobes",
    TRACEPOINT: "tracepoints",
    RAW_TRACEPOINT: "raw tracepoints",
    PERF_EVENT: "perf events",
}
# A second measurement of the traps, and what a budget decides, are over by then.
SETTLE_SECONDS = 75.0


@dataclass(frozen=True, slots=True)
class TrapSeconds:
    """Of one trap, a small program included, as the agent measured it."""

    entry: float
    exit: float

    @classmethod
    def of(cls, agent: TrialAgent) -> TrapSeconds:
        """From the agent's metrics. Raises OverheadError where it tells none."""
        told = {name.split('"')[1]: value for name, value in agent.metrics("stallwatch_probe_trap")}
        try:
            return cls(told["entry"], told["exit"])
        except KeyError:
            raise OverheadError(f"account: no trap cost is told:\n{agent.tail()}") from None

    def before(self, program: syscall.ProgramRuns) -> float:
        """What comes before one run of a program, at most.

        A tracepoint's handler is cheaper than a trap that the kernel emulates, and is charged as
        one. Of a uprobe whose name does not say that it sits at an entry, the dearest is assumed.
        Where two probes share a trap, both are charged with it.
        """
        if program.kind == KPROBE and not program.name.startswith(("enter", "mark")):
            return self.exit
        return self.entry


@dataclass(frozen=True, slots=True)
class Taken:
    """Of a slice: runs and seconds by kind of program, steps, and the job's CPU seconds."""

    runs: dict[int, int]
    seconds: dict[int, float]
    steps: int
    cpu_seconds: float

    @property
    def share(self) -> float:
        """Of the job's CPU time."""
        return sum(self.seconds.values()) / self.cpu_seconds


def programs(pid: int) -> dict[int, syscall.ProgramRuns]:
    """By id, the programs that a process holds."""
    found = {}
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            lines = dict(
                line.split(":\t") for line in info.read_text().splitlines() if ":\t" in line
            )
            if "prog_id" in lines:
                found[int(lines["prog_id"])] = syscall.program_runs(int(lines["prog_id"]))
    return found


def measure(agent: TrialAgent, job: Job, traps: TrapSeconds, seconds: float) -> Taken:
    """One slice."""
    before, cpu, steps = programs(agent.pid), job.cpu_seconds(), len(job.ends()[0])
    time.sleep(seconds)
    after, cpu, steps = programs(agent.pid), job.cpu_seconds() - cpu, len(job.ends()[0]) - steps
    runs, spent = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    for key, program in after.items():
        earlier = before.get(key)
        more = program.runs - (earlier.runs if earlier else 0)
        inside = program.seconds - (earlier.seconds if earlier else 0.0)
        runs[program.kind] += more
        spent[program.kind] += inside + more * traps.before(program)
    if not runs[KPROBE] or not steps:
        raise OverheadError("account: no uprobe was hit, or no step made; mend: a longer --slice")
    return Taken(runs, spent, steps, cpu)


def interval(shares: list[float]) -> tuple[float, float, float]:
    """Mean share of the slices and its 95 % interval (Student's t)."""
    values = np.array(shares)
    half = student(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()), float(values.mean()) - half, float(values.mean()) + half


def tell(slices: list[Taken], traps: TrapSeconds) -> float:
    """Print the table; the upper bound of the share."""
    steps, cpu = (sum(getattr(each, name) for each in slices) for name in ("steps", "cpu_seconds"))
    print(f"CPU time of a step, all ranks: {1000 * cpu / steps:.2f} ms, {steps} steps")
    print(f"a trap: {1e6 * traps.entry:.2f} us at an entry, {1e6 * traps.exit:.2f} us at an exit")
    print("\n| | runs a step | charged, us a step | share of CPU time |\n|---|---|---|---|")
    for kind, name in KINDS.items():
        runs = sum(each.runs[kind] for each in slices)
        spent = sum(each.seconds[kind] for each in slices)
        print(f"| {name} | {runs / steps:.1f} | {1e6 * spent / steps:.1f} | {spent / cpu:.4%} |")
    mean, low, high = interval([each.share for each in slices])
    print(f"| **all** | | | {mean:.3%} ({low:.3%} to {high:.3%}, {len(slices)} slices) |")
    return high


def main() -> int:
    """Measure; 1 when the upper bound is above the limit, 2 when nothing could be measured."""
    parser = argparse.ArgumentParser(prog="bench.account", description=__doc__)
    parser.add_argument("--slices", type=int, default=12, help="at least two")
    parser.add_argument("--slice", type=float, default=5.0, metavar="SECONDS", dest="seconds")
    parser.add_argument("--dim", type=int, default=2048, help="width of the model's layers")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--pin", action="store_true", help="each rank to a CPU of its own")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    parser.add_argument("--limit", type=float, default=0.01, help="fail above this upper bound")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("account: uprobes need root; mend: sudo make bench-account", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the job must not outlive this
    print(f"machine: {machine()}")
    try:
        with tempfile.TemporaryDirectory(prefix="stallwatch-account-") as folder:
            agent, statistics = TrialAgent(Path(folder)), syscall.enable_statistics()
            agent.start()
            job = Job(Path(folder), options)
            try:
                job.wait_past(time.monotonic() + SETTLE_SECONDS)
                traps = TrapSeconds.of(agent)
                slices = [
                    measure(agent, job, traps, options.seconds) for _ in range(options.slices)
                ]
            finally:
                os.close(statistics)
                agent.kill()
                job.kill()
    except (OverheadError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return int(tell(slices, traps) > options.limit)


if __name__ == "__main__":
    sys.exit(main())
