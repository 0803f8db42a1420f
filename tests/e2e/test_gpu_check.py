"""The GPU check on this machine: everything but the GPU, which a compiled stand-in replaces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes.cuda.building import build

pytestmark = pytest.mark.root

CHECK = Path(__file__).parents[1] / "gpu" / "check.sh"


def test_the_whole_check_runs_and_everything_agrees_with_a_stand_in(tmp_path: Path) -> None:
    library = build(tmp_path).with_name("libcudart.so.12")
    quick = ("--pairs", "2", "--slice", "1", "--settle", "1", "--limit", "inf")
    done = subprocess.run(
        ["sh", str(CHECK), "--python", sys.executable, "--stand-in", str(library), *quick],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything agrees" in done.stdout
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    for what in ("cudaMalloc, calls", "cudaMemcpy d2h, bytes", "memory held, growth in bytes"):
        assert lines[what].endswith("equal"), lines[what]
    assert "step time, A/A:" in done.stdout
    assert "DIFFERS" not in done.stdout
