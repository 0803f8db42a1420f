"""Boots a kernel on this machine's own root file system, in software emulation, with virtme-ng."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kernels.image import build
from tests.kernels.outcomes import Outcome, read_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
GUEST = "tests/kernels/guest.sh"
# Emulated, a probe's tests take about a minute, most of it the compiler's start.
LIMIT_SECONDS = 1800


class BootError(Exception):
    """The machine did not come up or did not finish; the text is the end of what it printed."""


@dataclass(frozen=True)
class Run:
    """What one kernel said: its release, and each test's outcome."""

    release: str
    outcomes: tuple[Outcome, ...]
    log: str


def boot_and_test(image: Path, files: Sequence[str], keep: Path | None = None) -> Run:
    """Run the marked tests of some files on a kernel. `keep`: a folder for the logs."""
    with tempfile.TemporaryDirectory(prefix="stallwatch-kernel-") as scratch:
        out = Path(scratch, "out")
        out.mkdir()
        tree = _snapshot(Path(scratch, "tree"))
        mounts = build(Path(scratch, "image"), Path(scratch, "staged"))
        Path(scratch, "mounts").write_text("\n".join(mounts) + "\n", encoding="utf-8")
        with _compiling(out / "requests", tree):
            console = _boot(image, out, tree, files)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (out / "console").write_text(console, encoding="utf-8")
            shutil.copytree(out, keep, dirs_exist_ok=True)
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


def _snapshot(tree: Path) -> Path:
    """What is run does not change while somebody goes on editing."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listing.stdout.decode().split("\0")):
        if name.endswith((".py", ".c", ".cc", ".h", ".toml", ".sh")) and (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    folders = ["rules", "engine", "probes", "tests"]
    compile_all = [sys.executable, "-m", "compileall", "-q", *folders]
    subprocess.run(compile_all, cwd=tree, check=True)
    return tree


def _boot(image: Path, out: Path, tree: Path, files: Sequence[str]) -> str:
    scripts = Path(sys.executable).parent
    command = [
        str(scripts / "vng"),
        "--verbose",
        "--run",
        str(image),
        "--user",
        "root",
        "--cwd",
        str(ROOT),
    ]
    command += ["--memory", "3G", "--cpus", "2", f"--rwdir={out}"]
    # KVM is not asked for: in a virtual machine it is often there and does not work.
    command += ["--disable-kvm", "--force-9p", "--disk", str(out.parent / "image")]
    guest = ["sh", str(tree / GUEST), str(out), sys.executable, *files]
    try:
        done = subprocess.run(
            [*command, "--", *guest],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"},  # vng calls its kin
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace")
    return done.stdout.decode(errors="replace")


def _read(out: Path, console: str) -> Run:
    log = out / "log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    try:
        outcomes = read_report((out / "report.xml").read_text(encoding="utf-8"))
        release = (out / "release").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        last = (text or console).splitlines()[-15:]
        raise BootError("\n".join(last)) from None
    return Run(release, outcomes, text)
