"""What every kernel of a run is given, made once: the tree, which tests to run, the disk image."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stage:
    """`marked`: the test files with a test for each kernel, relative to the tree."""

    tree: Path
    image: Path
    marked: tuple[str, ...]


@contextlib.contextmanager
def staged() -> Iterator[Stage]:
    """A copy of what is run: it does not change while somebody goes on editing."""
    with tempfile.TemporaryDirectory(prefix="stallwatch-kernels-") as folder:
        stage = Path(folder)
        tree, image = stage / "tree", stage / "image"
        _snapshot(tree)
        marked = _marked_files(tree)
        build(image, tree, stage / "staged")
        yield Stage(tree, image, marked)


def _snapshot(tree: Path) -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listing.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    folders = ["rules", "engine", "notifiers", "probes"]
    compile_all = [sys.executable, "-m", "compileall", "-q", *folders]
    subprocess.run(compile_all, cwd=tree, check=True)


def _marked_files(tree: Path) -> tuple[str, ...]:
    """By pytest's own word, which also leaves the tests' bytecode in the tree."""
    naming = [
        str(each.relative_to(tree))
        for each in tree.glob("tests/*/**/test_*.py")
        if "each_kernel" in each.read_text(encoding="utf-8")
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "each_kernel", *naming],
        cwd=tree,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    if not files:
        raise SystemExit(f"no test is marked each_kernel:\n{done.stdout}{done.stderr}")
    return tuple(sorted(files))
