"""Libraries of NVIDIA's out of their wheels: files to look at and to load, nothing is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

CACHE = Path(sys.prefix) / "wheels"


def library(requirement: str, name: str, *, platform: str = "") -> Path:
    """A file of a wheel of PyPI (`nvidia-x==1.2`), by its name; kept beside this Python.

    `platform`: a wheel for another machine (`manylinux2014_aarch64`).
    """
    folder = CACHE / f"{requirement}{platform and f'-{platform}'}"
    if not any(folder.rglob(name)):
        foreign = ["--platform", platform, "--only-binary", ":all:"] if platform else []
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q"]
        command += ["--no-deps", *foreign, "-d", str(folder), requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{requirement} cannot be fetched: {done.stderr}"
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            wheel.unlink()
    (found,) = folder.rglob(name)
    return found
