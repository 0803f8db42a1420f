"""A command that ends, run again and again: with probes and without, in random order."""

from __future__ import annotations

import os
import subprocess
import time
from typing import IO, TYPE_CHECKING, cast

from probes.overhead.errors import OverheadError
from probes.overhead.pairs import Ratio, compare
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from probes.overhead.within import Probes

# Shorter, and starting the command is what is measured.
LEAST_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how long it took, and the CPU time of all its processes."""

    seconds: float
    cpu_seconds: float


@dataclass(slots=True)
class Rounds:
    """Each round runs the command four times in random order: twice a pair's first, once with
    probes, once without for the A/A pair.
    """  # noqa: D205 - one sentence

    command: Sequence[str]
    probes: Probes
    chance: random.Random
    treated: list[tuple[Run, Run]] = field(default_factory=list)
    idle: list[tuple[Run, Run]] = field(default_factory=list)

    def run(self, count: int, tell: Callable[[int], None]) -> None:
        """Make `count` rounds; those of an interrupted series stay. Raises OverheadError."""
        for number in range(count):
            order = ["off", "on", "off again", "off for off"]
            self.chance.shuffle(order)
            found = {}
            for kind in order:
                if kind == "on":
                    self.probes.start()
                found[kind] = run_once(self.command)
                if kind == "on":
                    self.probes.stop()
            self.treated.append((found["off"], found["on"]))
            self.idle.append((found["off again"], found["off for off"]))
            tell(number + 1)


def run_once(command: Sequence[str]) -> Run:
    """Run to the end; its output is thrown away. Raises OverheadError when it fails."""
    began = time.monotonic()
    process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = cast("IO[bytes]", process.stderr)
    try:
        said = stderr.read()
        # Of this child and those that it waited for, unlike getrusage(2) of all children.
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        stderr.close()
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise failed(command, process.returncode, said.decode(errors="replace"))
    return Run(seconds, usage.ru_utime + usage.ru_stime)


def start(
    command: Sequence[str], *, stdout: int | None, stderr: int | None
) -> subprocess.Popen[bytes]:
    """Start a command. Raises OverheadError when there is no such program."""
    try:
        return subprocess.Popen(command, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise OverheadError(f"overhead: cannot run {command[0]}: {error.strerror}") from error


def failed(command: Sequence[str], status: int, said: str = "") -> OverheadError:
    """What to say of a command that did not end well."""
    how = f"was killed by signal {-status}" if status < 0 else f"failed with status {status}"
    end = "\n".join(said.splitlines()[-5:])
    return OverheadError(f"overhead: {command[0]} {how}" + (f":\n{end}" if end else ""))


def run_ratio(pairs: Sequence[tuple[Run, Run]], *, cpu: bool) -> Ratio | None:
    """Of the times of whole runs, or of their CPU times; None without a pair."""
    found = [(a.cpu_seconds, b.cpu_seconds) if cpu else (a.seconds, b.seconds) for a, b in pairs]
    return compare(found) if found and all(min(each) > 0 for each in found) else None
