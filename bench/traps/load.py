"""Builds and runs the job of load.c over the stand-in for CUDA (and for NCCL)."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
CUDA = ROOT / "tests" / "probes" / "cuda" / "stand_in"
NCCL = ROOT / "tests" / "probes" / "nccl" / "stand_in"
ROW = np.dtype([("time", "=f8"), ("calls", "=f8"), ("cpu", "=f8")])
RUNTIME = "libcudart.so.12"
FUNCTION = "cudaLaunchKernel"


def build(folder: Path) -> Path:
    """Compile libraries and job into `folder`; the job's path. Needs gcc."""
    # What NVIDIA's libraries do too: each function returns by itself, no tail calls.
    common = ["gcc", "-O2", "-fno-optimize-sibling-calls", "-w", "-pthread"]
    shared = [*common, "-shared", "-fPIC"]
    where = f"-Wl,-rpath,{folder}"

    def library(name: str, *parts: str | Path) -> Path:
        command = [*shared, f"-Wl,-soname,{name}", where, "-o", folder / name, *parts]
        subprocess.run([str(part) for part in command], check=True)
        return folder / name

    driver = library("libcuda.so.1", CUDA / "cuda.c")
    libraries = [library(RUNTIME, CUDA / "cudart.c", driver), driver]
    flags = []
    if (NCCL / "nccl.c").exists():
        libraries.append(library("libnccl.so.2", NCCL / "nccl.c", "-ldl"))
        flags.append("-DWITH_NCCL")
    job = folder / "load"
    source = Path(__file__).with_name("load.c")
    command = [*common, *flags, where, "-o", job, source, *libraries]
    subprocess.run([str(part) for part in command], check=True)
    return job


class Load:
    """A running job. `task`: its task in the agent's series."""

    def __init__(
        self,
        job: Path,
        *,
        seconds: float,
        rate: float = 20_000,
        syncs: float = 500,
        collectives: float = 50,
        work: int = 12_000,
        pattern: str = "constant",
        linger: int = 0,
        task: str = "load",
    ) -> None:
        self._trace = job.with_name(f"{task}.trace")
        numbers = (seconds, rate, syncs, collectives, work, pattern, linger, self._trace)
        self.process = subprocess.Popen(
            [str(job), *map(str, numbers)],
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "STALLWATCH_TASK_ID": task, "RANK": "0"},
        )
        self.task = task
        self.pid = int(self._line())
        self._made: tuple[int, ...] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def made(self) -> tuple[int, ...]:
        """Launches, synchronises and collectives, once it has made them all."""
        self._reader.join()
        if self._made is None:
            raise RuntimeError(f"the load ended early: {self.process.wait()}")
        return self._made

    def rows(self) -> NDArray[np.void]:
        """What it wrote down until now: time, launches, CPU seconds."""
        data = self._trace.read_bytes()
        return np.frombuffer(data[: len(data) // ROW.itemsize * ROW.itemsize], ROW)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()

    def _line(self) -> str:
        return self.process.stdout.readline().strip() if self.process.stdout else ""

    def _read(self) -> None:
        words = self._line().split()
        if len(words) == 3:
            self._made = tuple(int(word) for word in words)


def cpu_per_call(rows: NDArray[np.void], start: float, end: float) -> float:
    """CPU seconds a launch between two times, between the rows that lie inside."""
    inside = rows[(rows["time"] >= start) & (rows["time"] <= end)]
    if len(inside) < 2 or inside["calls"][-1] == inside["calls"][0]:
        raise ValueError(f"no launches between {start:.1f} s and {end:.1f} s")
    passed = inside[-1]["cpu"] - inside[0]["cpu"]
    return float(passed / (inside[-1]["calls"] - inside[0]["calls"]))
