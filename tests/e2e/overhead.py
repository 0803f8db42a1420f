"""What the probes cost a training run: python tests/e2e/overhead.py --pairs 20

One two-rank DDP run on Gloo, fixed seed and batch. All probes are attached and detached in turn,
each state held for some seconds; the medians of the step times of neighbouring slices are compared.
Said beside an A/A run, where nothing is attached in either state: what the machine alone does.

Needs root and a Python with torch (this one, or the one that STALLWATCH_TORCH_PYTHON names).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.plugins import load_probes
from engine.readings import ProbeOptions

if TYPE_CHECKING:
    from engine.protocols import Probe

WORKLOAD = Path(__file__).with_name("workloads") / "ddp.py"
POLL_SECONDS = 0.5
FLUSH_POLLS = 20
# Attaching compiles, and the first steps after it run on a machine that is still busy with that.
SETTLE_SECONDS = 1.0


class Job:
    """The training run; `ends` are its step ends on CLOCK_MONOTONIC, in seconds."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        python = os.environ.get("STALLWATCH_TORCH_PYTHON", sys.executable)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._trace = folder / "trace"
        self._ranks = []
        for rank in range(2):
            command = [python, str(WORKLOAD), "--steps", "0", "--dim", str(options.dim)]
            command += ["--batch", str(options.batch)] + ["--trace", str(self._trace)] * (rank == 0)
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "lo",
            }
            self._ranks.append(subprocess.Popen(command, env={**os.environ, **environment}))

    def wait_until_stepping(self) -> None:
        """Raises RuntimeError when the job does not start."""
        for _ in range(600):
            if self._trace.exists() and self._trace.stat().st_size:
                return
            time.sleep(0.2)
        raise RuntimeError("the job makes no steps")

    def stop(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Kill it; the ends of its steps."""
        for rank in self._ranks:
            rank.kill()
            rank.wait()
        raw = self._trace.read_bytes()
        return np.frombuffer(raw[: len(raw) // 8 * 8], np.float64)


def hold(probes: list[Probe], seconds: float) -> tuple[float, float]:
    """Do what the agent does for a while; the slice that counts."""
    time.sleep(SETTLE_SECONDS)
    start = time.monotonic()
    polls = 0
    while time.monotonic() - start < seconds:
        for probe in probes:
            probe.poll()
            if polls % FLUSH_POLLS == FLUSH_POLLS - 1:
                probe.produced()
                probe.collect()
        polls += 1
        time.sleep(POLL_SECONDS)
    return start, time.monotonic()


def attached(seconds: float) -> tuple[float, float]:
    """A slice with every probe that this machine allows."""
    probes = list(load_probes())
    up = [probe for probe in probes if probe.start(ProbeOptions(), _drop).state != "off"]
    try:
        return hold(up, seconds)
    finally:
        for probe in probes:
            probe.stop()


def _drop(_: object) -> None:
    pass


def compare(options: argparse.Namespace, *, probed: bool) -> dict[str, float]:
    """The ratio of step medians, attached over detached, with its 95 % interval."""
    order = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="stallwatch-overhead-") as folder:
        job = Job(Path(folder), options)
        try:
            job.wait_until_stepping()
            time.sleep(3)
            pairs = []
            for _ in range(options.pairs):
                slices: dict[bool, tuple[float, float]] = {}
                for state in order.sample([True, False], 2):
                    on = state and probed
                    slices[state] = attached(options.slice) if on else hold([], options.slice)
                pairs.append(slices)
        finally:
            ends = job.stop()
    ratios = [np.log(median(ends, pair[True]) / median(ends, pair[False])) for pair in pairs]
    return interval(np.asarray(ratios), len(ends))


def median(ends: np.ndarray[tuple[int], np.dtype[np.float64]], part: tuple[float, float]) -> float:
    """Median step time in seconds of the steps that lie in a slice."""
    inside = ends[(ends >= part[0]) & (ends < part[1])]
    return float(np.median(np.diff(inside)))


def interval(ratios: np.ndarray[tuple[int], np.dtype[np.float64]], steps: int) -> dict[str, float]:
    """Mean of the logarithms with Student's 95 % interval, as ratios."""
    from scipy import stats

    mean, error = ratios.mean(), stats.sem(ratios)
    reach = error * stats.t.ppf(0.975, len(ratios) - 1)
    low, middle, high = (float(np.exp(each)) for each in (mean - reach, mean, mean + reach))
    return {"ratio": middle, "low": low, "high": high, "pairs": len(ratios), "steps": steps}


def main() -> int:
    """Print both comparisons as JSON; exit 1 when the upper bound is above --limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--slice", type=float, default=5.0, help="seconds, five or more")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--limit", type=float, default=1.03)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the job must not outlive this
    answer = {"A/A": compare(options, probed=False), "probes": compare(options, probed=True)}
    print(json.dumps(answer, indent=2))
    return 1 if answer["probes"]["high"] > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
