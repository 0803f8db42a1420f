"""What is attached to the load: nothing, stallwatch, a naive bcc script, bpftrace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.traps.load import FUNCTION, RUNTIME
from probes.overhead.agent import TrialAgent
from probes.overhead.errors import OverheadError

if TYPE_CHECKING:
    from typing import IO

ROOT = Path(__file__).resolve().parents[2]
KERNEL_STUBS = ROOT / "probes" / "bpf" / "kernel"


class Rival(Protocol):
    """`settle_seconds`: from being attached until it costs what it costs for good."""

    name: str
    settle_seconds: float

    def start(self) -> None:
        """Attach; returns when it is done."""
        ...

    def stop(self) -> None:
        """Detach."""
        ...


class Nothing:
    """For A/A pairs."""

    name = "nothing (A/A)"
    settle_seconds = 1.0

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Stallwatch:
    """The agent with everything on that attaches to the load, under its budget.

    It watches all calls in its first one or two intervals of 10 s, to see what they cost.
    """

    settle_seconds = 35.0

    def __init__(self, folder: Path, settings: str = "", name: str = "stallwatch") -> None:
        self.name = name
        folder.mkdir(exist_ok=True)
        self.agent = TrialAgent(folder, settings=settings)

    def start(self) -> None:
        """Start the agent."""
        self.agent.start()
        if "cuda" not in self.agent.attached:
            raise OverheadError(f"traps: the probe did not attach:\n{self.agent.tail()}")

    def stop(self) -> None:
        """Stop it."""
        self.agent.stop()


class Process:
    """A tool of its own process; ready when it has said so on its output."""

    settle_seconds = 2.0

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self._command = command
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, wait for its first line."""
        with self._log.open("a", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                self._command,
                text=True,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "BCC_KERNEL_SOURCE": str(KERNEL_STUBS)},
            )
        if not _output(self._process).readline():
            said = self._log.read_text(encoding="utf-8")[-500:]
            raise OverheadError(f"traps: {self.name} did not start:\n{said}")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._process = None


def _output(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        raise OverheadError("traps: no output")
    return process.stdout


def naive(folder: Path) -> Process:
    """The bcc script of naive.py."""
    script = Path(__file__).with_name("naive.py")
    command = [sys.executable, str(script), str(folder / RUNTIME), FUNCTION]
    return Process("bcc uprobe + uretprobe, each event told", command, folder / "naive.log")


def bpftrace(folder: Path) -> Process | None:
    """Bpftrace counting in the kernel; None where it is not installed."""
    if shutil.which("bpftrace") is None:
        return None
    program = f"uprobe:{folder / RUNTIME}:{FUNCTION} {{ @calls = count(); }}"
    return Process("bpftrace, count()", ["bpftrace", "-e", program], folder / "bpftrace.log")
