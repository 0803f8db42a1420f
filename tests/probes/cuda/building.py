"""Builds and runs the stand-in for CUDA: libcuda.so.1, libcudart.so.12 and a job that uses them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("stand_in")
# As PyTorch's wheels name the copy that they bring along.
HASHED = "libcudart-d0da41ae.so.11.0"


def build(folder: Path, runtime: str = "libcudart.so.12", *, static: bool = False) -> Path:
    """Compile into `folder`; the job's path. `static`: with the runtime inside the job."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in")
    # As NVIDIA's runtime is built: each function returns by itself, no tail calls, and begins with
    # `push %rbp`, which the kernel emulates; single-stepping an entry costs ten times that.
    common = [compiler, "-O2", "-fno-optimize-sibling-calls"]
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


class Job:
    """A running job. `prefix` stands in front of its command."""

    def __init__(self, path: Path, *prefix: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, str(path)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self, word: str, *numbers: int) -> None:
        """Tell it what to do."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, (word, *numbers))) + "\n")
        self.process.stdin.flush()

    def do(self, word: str, *numbers: int) -> str:
        """Tell it what to do and wait until it is done; its answer."""
        self.begin(word, *numbers)
        return self.answer()

    def answer(self) -> str:
        """Wait until it is done; what it says."""
        return self._line()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
