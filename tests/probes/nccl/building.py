"""Builds the stand-in for NCCL and a job that uses it, over the stand-in for CUDA."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.probes.job import compiler

SOURCES = Path(__file__).with_name("stand_in")
CUDA = Path(__file__).parents[1] / "cuda" / "stand_in"


def build(folder: Path) -> Path:
    """Compile into `folder`; the job's path."""
    # What NVIDIA's libraries do too: each function returns by itself, no tail calls.
    common = [compiler(), "-O2", "-fno-optimize-sibling-calls", "-w", "-pthread"]
    shared = [*common, "-shared", "-fPIC"]
    where = f"-Wl,-rpath,{folder}"
    driver, runtime, nccl = (
        folder / name for name in ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2")
    )
    _run([*shared, "-Wl,-soname,libcuda.so.1", "-o", driver, CUDA / "cuda.c"])
    soname = "-Wl,-soname,libcudart.so.12"
    _run([*shared, soname, where, "-o", runtime, CUDA / "cudart.c", driver])
    _run([*shared, "-Wl,-soname,libnccl.so.2", "-o", nccl, SOURCES / "nccl.c", "-ldl"])
    job = folder / "job"
    _run([*common, where, "-o", job, SOURCES / "job.c", nccl, runtime, driver])
    return job


def build_plugin(
    folder: Path, version: int, name: str = "libnccl-profiler.so", *flags: str
) -> Path:
    """A profiler plugin with the table of one version; its path."""
    plugin = folder / name
    command = [compiler(), "-O2", "-fno-optimize-sibling-calls", "-w", "-shared", "-fPIC"]
    command += flags
    _run([*command, f"-DVERSION={version}", "-o", plugin, SOURCES / "profiler.c"])
    return plugin


def _run(command: list[str | Path]) -> None:
    subprocess.run([str(part) for part in command], check=True)
