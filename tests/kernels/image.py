"""A disk image of what the tests read most: the project, Python, its packages, LLVM.

The booted machine sees this machine's files over 9p, where each module costs milliseconds and what
is mapped is read page by page: half a minute for LLVM alone. The image is mounted over them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Large packages that no test on another kernel imports.
_LEFT_OUT = (
    "site-packages", "dist-packages",  # of the base Python, where a venv does not see them
    "mypy*", "nvidia", "pandas*", "pip*", "pyarrow*", "scipy*", "setuptools*", "test", "torch*",
    "triton", "*mypyc*",
)  # fmt: skip
_LIBRARIES = ("libLLVM", "libclang", "libbcc", "libbpf", "libelf", "libstdc++")


# Inside the image: the project's tree, and a list of the paths that lie over the machine's own.
TREE, MOUNTS = "tree", "mounts"


def build(image: Path, tree: Path, scratch: Path) -> None:
    """Write the image with `tree` in it.

    `scratch`: an empty folder, best on the same file system, for links instead of copies.
    """
    folders = _outermost(Path(each) for each in sys.path if _is_packages(each))
    files = [Path(sys.executable).resolve(), *_libraries()]
    for each in (*folders, *files):
        _link(each, scratch / each.relative_to("/"), _LEFT_OUT)
    _link(tree, scratch / TREE)
    mounts = [str(each) for each in (*folders, *files)]
    (scratch / MOUNTS).write_text("\n".join(mounts) + "\n", encoding="utf-8")
    megabytes = sum(each.stat().st_size for each in scratch.rglob("*") if each.is_file()) >> 20
    size = f"{megabytes * 5 // 4 + 64}M"  # small files fill their blocks badly
    options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(scratch)]
    subprocess.run(["mke2fs", *options, str(image), size], check=True)
    shutil.rmtree(scratch)


def _is_packages(path: str) -> bool:
    return path.startswith("/") and "python" in path and Path(path).is_dir()


def _outermost(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in sorted({each.resolve() for each in paths}):
        packages = path.name in {"site-packages", "dist-packages"}
        if packages or not any(path.is_relative_to(outer) for outer in found):
            found.append(path)
    return found


def _libraries() -> list[Path]:
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = [line.partition(" => ")[2] for line in listed.splitlines()]
    wanted = {Path(p).resolve() for p in paths if Path(p).name.startswith(_LIBRARIES)}
    return sorted(wanted)


def _link(source: Path, target: Path, left_out: Iterable[str] = ()) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignore = shutil.ignore_patterns(*left_out)
        shutil.copytree(source, target, symlinks=True, ignore=ignore, copy_function=_file)
    else:
        _file(str(source), str(target))


def _file(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
