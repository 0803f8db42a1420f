"""The GPU check itself: runs the job and the probes, compares, prints one table.

python -m tests.gpu.measure [--python PYTHON] [--stand-in LIBRARY] [--pairs N] ...

Exit status 0: everything agrees and the overhead's upper bound is below the limit; 1: something
does not; 2: it could not run. `check.sh` prepares what it needs and calls it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from probes.overhead.pairs import Slice, compare, step_seconds
from tests.gpu.comparison import (
    Row,
    collective_rows,
    exact_rows,
    memory_row,
    overhead_row,
    profile_rows,
    table,
)
from tests.gpu.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from probes.overhead.pairs import Ratio

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
HELD = "cuda_memory_bytes"
# While figures are compared nothing may be watched in slices; the overhead is that of the defaults.
UNBOUNDED: dict[str, object] = {"budget": {"enabled": False}}
EXACT: dict[str, dict[str, object]] = {"cuda": UNBOUNDED, "nccl": {}}
ALL: dict[str, dict[str, object]] = {
    name: {}
    for name in ("cuda", "nccl", "torch_step", "gpu", "gpu_driver", "tcp_retransmit", "process")
}
# Left out after each switch to "off", whether or not anything was on: detaching is quicker.
OFF_SECONDS = 2.0


class Failure(Exception):  # noqa: N818 - it is said to the user, not handled
    """The check cannot be made; the text says why."""


class Talker:
    """A process of ours that answers lines of JSON with lines of JSON."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, *request: Any) -> None:
        """Ask, and do not wait."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failure(f"the {self._name} has ended") from error

    def hear(self) -> Any:
        """The next answer. What is no JSON is somebody else's chatter, and is passed on."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            try:
                said = json.loads(line)
            except json.JSONDecodeError:
                print(line, end="", file=sys.stderr)
                continue
            if isinstance(said, dict) and "failed" in said:
                raise Failure(f"the {self._name}: {said['failed']}")
            return said
        status = self._process.wait()
        raise Failure(f"the {self._name} ended with status {status}; its last words are above")

    def ask(self, *request: Any) -> Any:
        """Ask and wait."""
        self.say(*request)
        return self.hear()

    def end(self) -> None:
        """End it in any case."""
        self._process.kill()
        self._process.wait()


@dataclass
class Check:
    """The job and the probes beside it."""

    job: Talker
    probes: Talker
    pid: int
    folder: Path
    settle_seconds: float

    def counted(self) -> dict[str, dict[str, float]]:
        """What the probes saw of the job since the last time."""
        found: dict[str, dict[str, float]] = self.probes.ask("flush", self.pid)
        return found

    def compare(self) -> Iterator[Row]:
        """Every figure that is known twice."""
        yield from self._exact()
        yield from self._profiled()
        yield from self._leaked()
        self.counted()
        truth = self.job.ask("collectives", 25, 4 * MIB)
        yield from collective_rows(truth, self.counted())

    def _exact(self) -> Iterator[Row]:
        before = self.counted().get(HELD, {}).get("device", 0.0)
        truth = self.job.ask("exact")
        seen = self.counted()
        yield from exact_rows(truth, seen)
        after = seen.get(HELD, {}).get("device", 0.0)
        yield memory_row("memory held, growth in bytes", "job", truth["held"], before, after)

    def _profiled(self) -> Iterator[Row]:
        self.job.say("profile", 100)
        if self.job.hear() is None:
            return
        self.counted()
        self.job.say("go")
        self.job.hear()
        seen = self.counted()
        told = self.job.ask("go")
        yield from profile_rows(Profile(**told), seen)

    def _leaked(self) -> Iterator[Row]:
        before = self.counted().get(HELD, {}).get("device", 0.0)
        grown = self.job.ask("leak", 16, 64 * MIB)
        after = self.counted().get(HELD, {}).get("device", 0.0)
        yield memory_row("a leak of tensors, bytes", "memory_reserved()", grown, before, after)

    def overhead(self, pairs: int, seconds: float) -> tuple[Ratio, Ratio]:
        """Steps with and without all probes, in slices of one run; and without twice (A/A)."""
        started = time.monotonic()
        # Twice as long as it can take: it is killed when enough slices are done.
        self.job.say("train", 4 * pairs * (2 * seconds + self.settle_seconds + 30))
        time.sleep(3)
        slices = {idle: self._pairs(pairs, seconds, idle=idle) for idle in (False, True)}
        ends = np.frombuffer((self.folder / "steps").read_bytes())
        print(f"{len(ends)} steps in {time.monotonic() - started:.0f} s", file=sys.stderr)
        ratios = []
        for idle in (False, True):
            times = [
                tuple(step_seconds(each, [ends]) for each in sorted(pair, key=_treated))
                for pair in slices[idle]
            ]
            ratios.append(compare([(first, second) for first, second in times]))
        return ratios[0], ratios[1]

    def _pairs(self, pairs: int, seconds: float, *, idle: bool) -> list[tuple[Slice, Slice]]:
        """Off on, on off, off on, ...: each switch serves two slices."""
        found: list[tuple[Slice, Slice]] = []
        on = False
        for _ in range(pairs):
            first = self._slice(seconds, treated=on)
            on = not on
            self._switch(on=on, idle=idle)
            found.append((first, self._slice(seconds, treated=on)))
        if on:
            self._switch(on=False, idle=idle)
        return found

    def _switch(self, *, on: bool, idle: bool) -> None:
        if not idle:
            self.probes.ask("start", ALL) if on else self.probes.ask("stop")
        time.sleep(self.settle_seconds if on else OFF_SECONDS)

    @staticmethod
    def _slice(seconds: float, *, treated: bool) -> Slice:
        start = time.monotonic()
        time.sleep(seconds)
        return Slice(start, time.monotonic(), treated)


def _treated(slice_: Slice) -> bool:
    return slice_.treated


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(prog="tests/gpu/check.sh", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--stand-in", default="", metavar="LIBRARY", help="no GPU: a libcudart")
    parser.add_argument("--pairs", type=int, default=6, help="of slices, of each kind")
    parser.add_argument("--slice", type=float, default=5.0, metavar="SECONDS", dest="seconds")
    # A budget acts two flushes after the start; until then everything is watched.
    parser.add_argument("--settle", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument("--limit", type=float, default=1.01, help="fail above this upper bound")
    return parser.parse_args(given)


def run(options: argparse.Namespace, say: Callable[[str], None] = print) -> int:
    """Compare, measure, print; 0 or 1."""
    plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    # The job keeps the libraries of its image: those of the bundle are for the probes alone.
    outside = os.environ.get("STALLWATCH_CHECK_LD_LIBRARY_PATH", "")
    job_environment = plain | ({"LD_LIBRARY_PATH": outside} if outside else {})
    stand_in = ["--stand-in", options.stand_in] if options.stand_in else []
    with tempfile.TemporaryDirectory(prefix="stallwatch-gpu-") as folder:
        probes = Talker("probes", [sys.executable, "-m", "tests.gpu.watcher"], dict(os.environ))
        job = Talker(
            "job", [options.python, "-m", "tests.gpu.job", folder, *stand_in], job_environment
        )
        try:
            facts = job.hear()
            say(f"job: {', '.join(f'{key} {value}' for key, value in facts.items())}")
            states = probes.ask("start", EXACT)
            for name, (state, reason, detail) in states.items():
                say(f"probe {name}: {state} {reason} {detail}".rstrip())
            if states["cuda"][0] == "off":
                raise Failure("the cuda probe is off, so there is nothing to compare")
            check = Check(job, probes, facts["pid"], Path(folder), options.settle)
            wanted = [row for row in check.compare() if _measured(row, states)]
            lost = probes.ask("stop")
            aimed, idle = check.overhead(options.pairs, options.seconds)
        finally:
            job.end()
            probes.end()
    say("")
    say(table(wanted))
    for name, entries in lost.items():
        for stream, reason, count in entries:
            say(f"lost: {name} {stream} {reason}: {count}")
    text, kept = overhead_row(aimed, options.limit)
    say(f"\nstep time, all probes on / off: {text}")
    say(f"step time, A/A:                 {overhead_row(idle, options.limit)[0]}")
    failed = [row.what for row in wanted if row.needed and not row.agrees]
    if not kept:
        failed.append(f"the overhead's upper bound is above {options.limit}")
    say("\neverything agrees" if not failed else f"\ndoes not agree: {'; '.join(failed)}")
    return int(bool(failed))


def _measured(row: Row, states: dict[str, list[str]]) -> bool:
    """Figures of a probe that is off are not compared: its line above says why."""
    return not ("nccl_" in row.what and states["nccl"][0] == "off")


def main() -> int:
    """See the module."""
    try:
        return run(arguments())
    except Failure as failure:
        print(f"gpu check: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
