"""Builds the stand-in for CUDA: libcuda.so.1, libcudart.so.12 and a job that uses them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.probes.job import compiler

SOURCES = Path(__file__).with_name("stand_in")
# As PyTorch's wheels name the copy that they bring along.
HASHED = "libcudart-d0da41ae.so.11.0"


def build(folder: Path, runtime: str = "libcudart.so.12", *, static: bool = False) -> Path:
    """Compile into `folder`; the job's path. `static`: with the runtime inside the job."""
    # As NVIDIA's runtime is built: each function returns by itself, no tail calls, and begins with
    # `push %rbp`, which the kernel emulates; single-stepping an entry costs ten times that.
    common = [compiler(), "-O2", "-fno-optimize-sibling-calls"]
    common += ["-fno-omit-frame-pointer", "-fno-shrink-wrap"]
    driver = folder / "libcuda.so.1"
    shared = [*common, "-shared", "-fPIC"]
    _run([*shared, "-Wl,-soname,libcuda.so.1", "-o", driver, SOURCES / "cuda.c"])
    where = f"-Wl,-rpath,{folder}"
    parts: list[Path] = [SOURCES / "cudart.c"]
    if not static:
        library = folder / runtime
        _run([*shared, f"-Wl,-soname,{runtime}", where, "-o", library, *parts, driver])
        parts = [library]
    job = folder / "job"
    _run([*common, "-pthread", where, "-o", job, SOURCES / "job.c", *parts, driver])
    return job


def _run(command: list[str | Path]) -> None:
    subprocess.run([str(part) for part in command], check=True)
