"""From what was asked for to a result: sets up, measures, and gives what there is on Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from probes.overhead.agent import TrialAgent, bpf_users
from probes.overhead.errors import OverheadError
from probes.overhead.runs import LEAST_SECONDS, Rounds, failed, run_once, run_ratio
from probes.overhead.steps import StepFiles, StepLines
from probes.overhead.table import Result, machine
from probes.overhead.within import Turns, step_ratio
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST_STEP_SECONDS = 120.0
# What a start takes beyond the first one that was timed, so that both kinds of pairs wait alike.
START_MARGIN = 1.3
STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure. `step_files`, `step_lines`: where steps are told; neither: whole runs."""

    command: tuple[str, ...]
    pairs: int
    seconds: float
    probes: tuple[str, ...] | None
    installed: tuple[str, ...]
    step_files: tuple[Path, ...] = ()
    step_lines: str = ""
    settings: str = ""


def measure(request: Request) -> Result:
    """Measure. Raises OverheadError; Ctrl-C ends early with what there is, if there is a pair."""
    if os.geteuid() != 0:
        raise OverheadError(
            "overhead: probes are attached and detached, which needs root\n"
            f"    hint: sudo stallwatch overhead -- {' '.join(request.command)}"
        )
    with tempfile.TemporaryDirectory(prefix="stallwatch-overhead-") as folder:
        agent = TrialAgent(
            Path(folder), request.probes, request.installed, settings=request.settings
        )
        result = Result([], [f"machine: {machine()}"])
        others = len(bpf_users())
        if others:
            line = f"{others} other processes hold BPF programs here, in all slices alike"
            result.notes.append(line)
        try:
            if request.step_files or request.step_lines:
                _measure_steps(request, agent, result)
            else:
                _measure_runs(request, agent, result)
        finally:
            agent.kill()
        if not result.rows:
            raise OverheadError("overhead: it ended before a pair was complete")
        _describe(agent, result)
        return result


def _measure_runs(request: Request, agent: TrialAgent, result: Result) -> None:
    first = run_once(request.command)
    if first.seconds < LEAST_SECONDS:
        result.notes.append(
            f"the command takes {first.seconds:.2f} s: its start is most of what is compared"
        )
    rounds = Rounds(request.command, agent, random.SystemRandom())
    try:
        rounds.run(request.pairs, lambda done: _tell(done, request.pairs))
    except KeyboardInterrupt:
        result.interrupted = True
    for what, cpu in (("time of a run", False), ("CPU time of a run", True)):
        for kind, pairs in (("probes on / off", rounds.treated), ("A/A", rounds.idle)):
            ratio = run_ratio(pairs, cpu=cpu)
            if ratio is not None:
                result.rows.append((f"{what}, {kind}", ratio))


def _measure_steps(request: Request, agent: TrialAgent, result: Result) -> None:
    # Once before the command: how long a start takes, and whether it works at all.
    began = time.monotonic()
    agent.start()
    start_seconds = START_MARGIN * (time.monotonic() - began) + 1
    agent.stop()
    with _running(request) as (process, steps):
        turns = Turns(
            agent, request.seconds, start_seconds, STOP_SECONDS, lambda: cpu_seconds(process.pid)
        )
        try:
            _wait_for_step(request, process, steps, time.monotonic() + 3)
            with _ending(process, turns):
                turns.run(request.pairs, lambda done: _tell(done, request.pairs))
            with contextlib.suppress(OverheadError):
                _wait_for_step(request, process, steps, time.monotonic())
        except KeyboardInterrupt:
            result.interrupted = True
        if process.poll() is not None:
            if process.returncode:
                raise failed(request.command, process.returncode)
            result.notes.append("the command ended before the measurement did")
        ends = steps.ends()
    for what, cpu in (("median step", False), ("CPU time of a step", True)):
        for kind, idle in (("probes on / off", False), ("A/A", True)):
            ratio = step_ratio(turns.pairs, ends, idle=idle, cpu=cpu)
            if ratio is not None:
                result.rows.append((f"{what}, {kind}", ratio))


class _EndedError(Exception):
    """The command ended while slices were being made."""


@contextlib.contextmanager
def _ending(process: subprocess.Popen[str], turns: Turns) -> Iterator[None]:
    """Leave quietly when the command ends; the pairs until then stay."""
    plain = turns.cpu_seconds

    def watched() -> float:
        if process.poll() is not None:
            raise _EndedError
        return plain()

    turns.cpu_seconds = watched
    with contextlib.suppress(_EndedError):
        yield


@contextlib.contextmanager
def _running(request: Request) -> Iterator[tuple[subprocess.Popen[str], StepLines | StepFiles]]:
    try:
        process = subprocess.Popen(
            request.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if request.step_lines else sys.stderr,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        what = f"cannot run {request.command[0]}: {error.strerror}"
        raise OverheadError(f"overhead: {what}") from error
    steps: StepLines | StepFiles = StepFiles(request.step_files)
    if process.stdout is not None:
        steps = StepLines(process.stdout, request.step_lines, sys.stderr)
    try:
        yield process, steps
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        steps.close()


def _wait_for_step(
    request: Request,
    process: subprocess.Popen[str],
    steps: StepLines | StepFiles,
    after: float,
) -> None:
    """Until every file, or the output, told of a step after a time. Raises OverheadError."""
    deadline = time.monotonic() + FIRST_STEP_SECONDS
    while not all(len(ends) and ends[-1] > after for ends in steps.ends()):
        if process.poll() is not None:
            if process.returncode:
                raise failed(request.command, process.returncode)
            raise OverheadError(
                f"overhead: {request.command[0]} ended before anything could be compared\n"
                "    hint: leave out --step-file and --step-lines to compare whole runs"
            )
        if time.monotonic() > deadline:
            raise OverheadError(
                f"overhead: no step within {FIRST_STEP_SECONDS:.0f} s\n"
                "    hint: --step-lines is a regular expression for the lines that end a step"
            )
        time.sleep(0.2)


def cpu_seconds(session: int) -> float:
    """What all threads of all living processes of a session have used (schedstat, proc(5))."""
    spent = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[3]) != session:
                continue
            for thread in (stat.parent / "task").iterdir():
                spent += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return spent / 1e9


def _tell(done: int, pairs: int) -> None:
    print(f"\r{min(done, pairs)} of {pairs} pairs", end="", file=sys.stderr, flush=True)
    if done >= pairs:
        print(file=sys.stderr)


def _describe(agent: TrialAgent, result: Result) -> None:
    result.notes.append(f"probes: {', '.join(agent.attached)}")
    if agent.cpu_seconds:
        used, passed = (sum(each) for each in zip(*agent.cpu_seconds, strict=True))
        resident = max(agent.rss_bytes) / 2**20
        result.notes.append(f"agent: {used / passed:.4f} CPU seconds a second, {resident:.0f} MiB")
    if result.interrupted:
        result.notes.append("interrupted: this is what there was until then")


def chosen(names: str | None, installed: Sequence[str]) -> tuple[str, ...] | None:
    """The probes of `--probes a,b`. Raises OverheadError for one that does not exist."""
    from rules.fields import did_you_mean

    if names is None:
        return None
    found = tuple(name.strip() for name in names.split(",") if name.strip())
    for name in found:
        if name not in installed:
            hint = did_you_mean(name, installed) or f"there are {', '.join(installed)}"
            raise OverheadError(f"overhead: there is no probe '{name}'\n    hint: {hint}")
    return found
