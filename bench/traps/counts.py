"""Whether counts are right: `make bench-counts`.

    python -m bench.traps.counts --runs 20     # scaled counts: is the truth within the bound?
    python -m bench.traps.counts --exact       # without a budget: is every call counted?

Each run is a job (load.c) that knows how often it called; a few run at a time, each with another
pattern of load, under one agent. When a job has made its last call it lives on until the counters
have been stored.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.traps.load import FUNCTION, Load, build
from probes.overhead.agent import TrialAgent
from probes.overhead.errors import OverheadError
from probes.overhead.table import machine

PATTERNS = ("constant", "bursty", "onoff", "ramp", "aligned")
# Two flushes of 10 s, and some more on a busy machine.
LINGER_SECONDS = 26
UNGOVERNED = "probes:\n  cuda: {budget: {enabled: false}}\n"


@dataclass(frozen=True)
class Row:
    """A run: what was called, what was counted, how far that may be off."""

    pattern: str
    what: str
    true: int
    counted: float
    bound: float

    @property
    def held(self) -> bool:
        """Whether the truth lies within the bound; a count is rounded to a whole number."""
        return abs(self.counted - self.true) <= self.bound + 1


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="bench.traps.counts", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--parallel", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run")
    parser.add_argument("--rate", type=float, default=20_000.0, help="launches a second")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--ratio", type=float, default=0.01, help="the budget (default 0.01)")
    parser.add_argument("--exact", action="store_true", help="one run each without a budget")
    return parser.parse_args()


def run(
    agent: TrialAgent, job: Path, batch: list[tuple[str, str]], options: argparse.Namespace
) -> list[Row]:
    """Run some jobs at a time; `batch`: (task, pattern) of each."""
    loads = [
        Load(
            job,
            seconds=options.seconds,
            rate=options.rate,
            work=4_000,
            pattern=pattern,
            linger=3 * LINGER_SECONDS,
            task=task,
        )
        for task, pattern in batch
    ]
    try:
        made = [load.made() for load in loads]
        time.sleep(LINGER_SECONDS)
        return [
            row
            for (task, pattern), true in zip(batch, made, strict=True)
            for row in read(agent, task, pattern, true)
        ]
    finally:
        for load in loads:
            load.end()


def read(agent: TrialAgent, task: str, pattern: str, true: tuple[int, ...]) -> list[Row]:
    """The rows of a job: launches, synchronises, and collectives where NCCL is watched."""

    def value(metric: str, label: str) -> float:
        return sum(v for _, v in agent.query(f'{metric}{{task_id="{task}",{label}}}'))

    rows = []
    for call, count in zip((FUNCTION, "cudaStreamSynchronize"), true, strict=False):
        label = f'call="{call}"'
        counted, bound = value("cuda_calls_total", label), value("cuda_calls_error_bound", label)
        rows.append(Row(pattern, call, count, counted, bound))
    if "nccl" in agent.attached and true[2]:
        label = 'op="AllReduce"'
        counted, bound = value("nccl_calls_total", label), value("nccl_calls_error_bound", label)
        rows.append(Row(pattern, "ncclAllReduce", true[2], counted, bound))
    return rows


def measure(options: argparse.Namespace, folder: Path) -> list[Row]:
    """All runs."""
    governed = f"probes:\n  cuda: {{driver: false, budget: {{ratio: {options.ratio:g}}}}}\n"
    agent = TrialAgent(folder, settings=UNGOVERNED if options.exact else governed)
    job = build(folder)
    patterns = options.patterns.split(",")
    count = len(patterns) if options.exact else options.runs
    jobs = [(f"load-{number}", patterns[number % len(patterns)]) for number in range(count)]
    rows: list[Row] = []
    print(f"machine: {machine()}")
    minutes = -(-count // options.parallel) * (options.seconds + LINGER_SECONDS + 5) / 60
    print(f"about {minutes:.0f} minutes", flush=True)
    try:
        agent.start()
        for first in range(0, count, options.parallel):
            found = run(agent, job, jobs[first : first + options.parallel], options)
            rows += found
            for row in found:
                print(line(row), file=sys.stderr, flush=True)
        modes = agent.query('stallwatch_probe_mode{mode!="full"}')
        other = [f"{each['function']}: {each['mode']}" for each, _ in modes]
        print(f"modes at the end: {', '.join(other) or 'all full'}")
    except KeyboardInterrupt:
        print("interrupted: this is what there was until then", file=sys.stderr)
    finally:
        agent.kill()
    return rows


def line(row: Row) -> str:
    """A line of the table."""
    error = (row.counted - row.true) / max(1, row.true)
    share = row.bound / max(1, row.true)
    held = "yes" if row.held else "NO"
    numbers = f"{row.true} | {row.counted:.0f} | {error:+.4f} | {share:.4f}"
    return f"| {row.pattern} | {row.what} | {numbers} | {held} |"


def main() -> int:
    """Run; 1 when more than one run in twenty was off, 2 when nothing could be run."""
    options = arguments()
    if os.geteuid() != 0:
        print("counts: uprobes need root; mend: sudo make bench-counts", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="stallwatch-counts-") as folder:
        try:
            rows = measure(options, Path(folder))
        except OverheadError as error:
            print(error, file=sys.stderr)
            return 2
    print("\n| load | call | true | counted | error | bound | held |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(line(row))
    print()
    missed = False
    for what in dict.fromkeys(row.what for row in rows):
        held = [row.held for row in rows if row.what == what]
        print(f"{what} within its bound: {sum(held)} of {len(held)} runs")
        missed |= sum(held) < 0.95 * len(held)
    return int(not rows or missed)


if __name__ == "__main__":
    sys.exit(main())
