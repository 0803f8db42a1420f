"""What `check.sh` says of a machine that has not what it needs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CHECK = Path(__file__).with_name("check.sh")


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(CHECK), *options],
        env={**os.environ, "STALLWATCH_GPU_BUNDLE": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_dry_run_names_what_is_missing_each_with_its_mend(tmp_path: Path) -> None:
    fake(tmp_path, "nvidia-smi", "exit 9")
    fake(tmp_path, "python3", "exit 1")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run("--dry", "--python", str(tmp_path / "python3"), PATH=path)
    assert done.returncode == 2
    assert "no NVIDIA GPU answers" in done.stdout
    assert "has no CUDA build of PyTorch" in done.stdout
    assert "cannot import capstone" in done.stdout
    missing = done.stdout.count("\n  - ")
    assert missing == done.stdout.count("\n    mend: ") >= 3
    assert "would run: " in done.stdout


def test_a_real_run_without_them_ends_before_it_begins(tmp_path: Path) -> None:
    fake(tmp_path, "nvidia-smi", "exit 9")
    done = run("--python", "/nonexistent/python3", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 2
    assert "missing:" in done.stdout
    assert "would run" not in done.stdout


def test_what_the_bundle_has_is_not_missing(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("capstone-5.0.9-py3-none-any.whl", "nvidia_ml_py-13.0-py3-none-any.whl"):
        (wheels / name).touch()
    fake(tmp_path, "python3", "exit 1")
    python = str(tmp_path / "python3")
    done = run("--dry", "--python", python, STALLWATCH_GPU_BUNDLE=str(tmp_path))
    assert "would be taken from the bundle: capstone" in done.stdout
    assert "would be taken from the bundle: nvidia-ml-py" in done.stdout
    assert "cannot import capstone" not in done.stdout
    assert "cannot import pydantic" in done.stdout


def test_help_says_what_it_needs_and_what_has_not_been_tried() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "NOT YET RUN ON A GPU" in done.stdout
    assert "make gpu-bundle" in done.stdout
