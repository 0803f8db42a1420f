"""The file that a job copies, loaded by whatever runs here, and read by our own ELF reader."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Level, ProbeOptions, Reading
from probes.elf.exits import find_exits
from probes.elf.image import Image
from probes.elf.symbols import find_functions
from probes.torch_step.functions import MARKER as MARKER_LIBRARY
from probes.torch_step.marker import stallwatch_step
from probes.torch_step.probe import TorchStepProbe

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = Path(stallwatch_step.__file__)
JOB = """
import os, sys, time
{preparation}
import stallwatch_step
print(os.getpid(), stallwatch_step.available, flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        stallwatch_step.mark()
        time.sleep(0.001)
    print("done", flush=True)
"""


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_library_is_an_elf_file_with_one_function_that_returns(
    machine: str, tmp_path: Path
) -> None:
    file = tmp_path / "libstallwatch_step.so"
    file.write_bytes(stallwatch_step.image(machine))
    with Image(str(file)) as image:
        (function,) = find_functions(image, "stallwatch_step")
        exits = find_exits(image, function)
    assert exits.addresses == (
        function.address + function.size - (1 if machine == "x86_64" else 4),
    )
    readelf = shutil.which("readelf")
    if readelf:
        done = subprocess.run(
            [readelf, "-a", str(file)], capture_output=True, text=True, check=True
        )
        assert "Warning" not in done.stderr
        assert "FUNC    GLOBAL DEFAULT    1 stallwatch_step" in done.stdout


class Job:
    """A Python program that marks its steps, with this file copied beside it."""

    def __init__(self, folder: Path, preparation: str = "") -> None:
        shutil.copy(MARKER, folder)
        (folder / "job.py").write_text(JOB.format(preparation=preparation))
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "job.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        pid, self.available = self._line().split()
        self.pid = int(pid)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def mark(self, steps: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        assert self._line() == "done"

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


NO_MEMORY = "del os.memfd_create"


@pytest.mark.parametrize("preparation", ["", NO_MEMORY], ids=["memory", "file"])
def test_it_loads_from_memory_or_from_a_file_that_is_gone_again(
    preparation: str, tmp_path: Path
) -> None:
    job = Job(tmp_path, preparation)
    job.mark(2)
    maps = Path(f"/proc/{job.pid}/maps").read_text()
    job.end()
    assert job.available == "True"
    assert "libstallwatch_step" in maps


def test_where_nothing_can_be_loaded_a_mark_does_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, "import ctypes; ctypes.PyDLL = lambda path: exec('raise OSError')")
    job.mark(2)
    job.end()
    assert job.available == "False"


@pytest.fixture(scope="module")
def probe() -> Iterator[tuple[TorchStepProbe, list[Reading]]]:
    probe, readings = TorchStepProbe(), []  # type: ignore[var-annotated]
    probe.start(ProbeOptions(), readings.append)
    yield probe, readings
    probe.stop()


@pytest.mark.each_kernel
@pytest.mark.root
@pytest.mark.parametrize("preparation", ["", NO_MEMORY], ids=["memory", "file"])
def test_the_steps_of_a_job_that_marks_them_are_counted(
    probe: tuple[TorchStepProbe, list[Reading]], preparation: str, tmp_path: Path
) -> None:
    torch_step, readings = probe
    marker = f"stallwatch_step of {MARKER_LIBRARY}*"
    torch_step.poll()
    before = torch_step._sites.attached(marker)
    job = Job(tmp_path, preparation)
    deadline = time.monotonic() + 60
    while torch_step._sites.attached(marker) <= before:  # libraries of others come first
        assert time.monotonic() < deadline, torch_step.status()
        torch_step.poll()
        time.sleep(0.05)
    job.mark(12)
    torch_step.collect()
    job.end()
    own = [each for each in readings if getattr(each, "process", None) and each.process]
    mine = [each for each in own if each.process and each.process.pid == job.pid]
    steps = [each for each in mine if isinstance(each, Count) and each.metric == "steps_total"]
    assert [each.delta for each in steps] == [12]
    (length,) = [e for e in mine if isinstance(e, Level) and e.metric == "step_time_seconds"]
    assert length.value > 0.001
    assert not [e for e in mine if isinstance(e, Level) and e.metric == "comm_wait_ratio"]


def test_it_needs_nothing_of_stallwatch(tmp_path: Path) -> None:
    shutil.copy(MARKER, tmp_path)
    code = "import stallwatch_step, sys; print(any(n.startswith('probes') for n in sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "False"
