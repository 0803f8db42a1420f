"""Boots a kernel on this machine's own root file system, in software emulation, with virtme-ng."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kernels.outcomes import Outcome, read_report
from tests.kernels.staging import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kernels.staging import Stage

GUEST = "tests/kernels/guest.sh"


class BootError(Exception):
    """The machine did not come up or did not finish; the text is the end of what it printed."""


@dataclass(frozen=True)
class Run:
    """What one kernel said: its release, and each test's outcome."""

    release: str
    outcomes: tuple[Outcome, ...]
    log: str


def boot_and_test(
    kernel: Path, stage: Stage, files: Sequence[str], keep: Path, limit_seconds: float
) -> Run:
    """Run the marked tests of some files on a kernel. `keep`: a folder for the logs.

    Raises BootError when nothing was reported. Tests that did not come to an end in time are in the
    outcomes as not finished.
    """
    with tempfile.TemporaryDirectory(prefix="stallwatch-kernel-") as scratch:
        out = Path(scratch, "out")
        out.mkdir()
        disk = Path(scratch, "image")
        shutil.copy(stage.image, disk)  # qemu locks it
        with _compiling(out / "requests", stage.tree):
            console = _boot(kernel, disk, stage, [str(out), sys.executable, *files], limit_seconds)
        (out / "console").write_text(console, encoding="utf-8")
        shutil.rmtree(keep, ignore_errors=True)
        shutil.copytree(out, keep)
        return _read(out, console)


@contextlib.contextmanager
def _compiling(requests: Path, tree: Path) -> Iterator[None]:
    """A process that compiles what the booted machine asks for (precompile.py)."""
    requests.mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.precompile", str(requests)]
    with (requests.parent / "compiler").open("wb") as log:
        compiling = subprocess.Popen(command, cwd=tree, stdout=log, stderr=log)
        try:
            yield
        finally:
            compiling.terminate()
            compiling.wait()


def _boot(
    kernel: Path, disk: Path, stage: Stage, arguments: Sequence[str], limit_seconds: float
) -> str:
    scripts = Path(sys.executable).parent
    command = [str(scripts / "vng"), "--verbose", "--run", str(kernel), "--user", "root"]
    command += ["--cwd", str(ROOT), "--memory", "3G", "--cpus", "2", f"--rwdir={arguments[0]}"]
    # KVM is not asked for: in a virtual machine it is often there and does not work.
    command += ["--disable-kvm", "--force-9p", "--disk", str(disk)]
    with subprocess.Popen(
        [*command, "--", "sh", str(stage.tree / GUEST), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"},  # vng calls its kin
        start_new_session=True,
    ) as vng:
        try:
            console, _ = vng.communicate(timeout=limit_seconds)
        except BaseException as error:
            os.killpg(vng.pid, signal.SIGKILL)  # qemu too, which holds the pipe
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            console, _ = vng.communicate()
    return console.decode(errors="replace")


def _read(out: Path, console: str) -> Run:
    log = out / "log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    try:
        outcomes = read_report((out / "report").read_text(encoding="utf-8"))
        release = (out / "release").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        last = (text or console).splitlines()[-15:]
        raise BootError("\n".join(last)) from None
    return Run(release, outcomes, text)
