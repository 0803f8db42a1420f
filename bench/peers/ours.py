"""stallwatch as a user starts it: a fresh process for every figure."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.data import STEP_MS
from bench.peers.packages import ROOT, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers.data import DataSet

STALLWATCH = Path(sys.executable).with_name("stallwatch")
PACK = ROOT / "bench" / "pack.yaml"


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended: its output, its wall time, and what `--timing` said."""

    output: str
    wall_seconds: float
    timing: dict[str, float]

    @property
    def evaluate_seconds(self) -> float:
        """Without start-up, reading and output."""
        return self.timing["evaluate"]


def run(arguments: Sequence[str], *, timing: bool = True) -> Run:
    """`stallwatch ARGUMENTS`. Raises Failure for an exit status other than 0."""
    command = [str(STALLWATCH), *arguments, *(["--timing"] if timing else [])]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_seconds = time.perf_counter() - began
    if done.returncode:
        raise Failure(f"stallwatch {arguments[0]} failed: {done.stderr[-1000:]}")
    said: dict[str, float] = {}
    if timing:
        lines = [line for line in done.stderr.splitlines() if line.startswith("{")]
        said = json.loads(lines[-1])
    return Run(done.stdout, wall_seconds, said)


def query(expression: str, file: Path, data: DataSet) -> Run:
    """A range query; the output is JSON."""
    return run(
        [
            *("query", expression, "--data", str(file), "--format", "json"),
            *("--step", f"{STEP_MS // 1000}s", *_range(data)),
        ]
    )


def dry_run(file: Path, data: DataSet) -> Run:
    """The pack over all of the data; the output is JSON."""
    return run(
        [
            *("dry-run", "--rules", str(PACK), "--data", str(file), "--format", "json"),
            *_range(data),
        ]
    )


def alerts(result: Run) -> list[dict[str, Any]]:
    """The alerts of a dry-run's output."""
    found: list[dict[str, Any]] = json.loads(result.output)["alerts"]
    return found


def _range(data: DataSet) -> tuple[str, ...]:
    return "--start", f"{data.start_ms / 1000:.3f}", "--end", f"{data.end_ms / 1000:.3f}"
