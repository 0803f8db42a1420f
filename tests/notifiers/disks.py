"""Small disks to fill and to break. They need root; without it the tests that use them skip."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def small_disk_at(folder: Path, megabytes: int = 16) -> Iterator[Path]:
    """A tmpfs."""
    _needs_root()
    folder.mkdir()
    with _mounted(["-t", "tmpfs", "-o", f"size={megabytes}m", "none"], folder):
        yield folder


@contextmanager
def ext4_at(folder: Path) -> Iterator[Path]:
    """A file system that can be made read-only under open files (`abort`)."""
    _needs_root()
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    image = folder.with_name(f"{folder.name}.image")
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    with _mounted(["-o", "loop", str(image)], folder):
        yield folder


def abort(folder: Path) -> None:
    """What the kernel does with errors=remount-ro: no write succeeds any more, old files too."""
    subprocess.run(["mount", "-o", "remount,abort", str(folder)], check=True)
    with pytest.raises(OSError, match="Read-only file system"):
        (folder / "other").touch()


def fill(folder: Path) -> Path:
    """A file that takes all that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


def overwrite(path: Path, draw: random.Random, places: int) -> None:
    """Up to 400 random bytes at so many places of a file."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for _ in range(places):
            file.seek(draw.randrange(max(1, size - 200)))
            file.write(draw.randbytes(draw.randrange(1, 400)))


def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("to mount a disk needs root")


@contextmanager
def _mounted(options: list[str], folder: Path) -> Iterator[None]:
    mount = ["mount", *options, str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be mounted: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
