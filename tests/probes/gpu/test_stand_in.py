"""The probe through nvidia-ml-py and a compiled stand-in for libnvidia-ml.so.1: no GPU is involved.

In a process of its own, since a library once loaded stays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "e2e/stand_ins/nvml.c"
DRIVER = """
import json, sys
from engine.readings import Level, ProbeOptions
from probes.gpu.probe import GpuProbe
seen = []
probe = GpuProbe()
first = probe.start(ProbeOptions(), seen.append)
probe.collect()
status = probe.status()
probe.stop()
levels = [[dict(e.labels), e.process and e.process.pid, e.value] for e in seen]
print(json.dumps({"first": first.reason, "state": status.state, "reason": status.reason,
                  "levels": levels}))
"""


def ask(tmp_path: Path, values: str) -> dict[str, object]:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler for the stand-in")
    library = tmp_path / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library)]
    subprocess.run([compiler, *flags, str(SOURCE)], check=True)
    (tmp_path / "values").write_text(values)
    settings = {
        "LD_LIBRARY_PATH": str(tmp_path),
        "STALLWATCH_NVML_VALUES": str(tmp_path / "values"),
    }
    run = subprocess.run(
        [sys.executable, "-c", DRIVER],
        env={**os.environ, **settings},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    answer: dict[str, object] = json.loads(run.stdout)
    return answer


def test_utilisation_and_owners_come_from_the_library(tmp_path: Path) -> None:
    me = os.getpid()
    assert ask(tmp_path, f"GPU-aa 37 {me}\nGPU-bb 0\n") == {
        "first": "",
        "state": "attached",
        "reason": "",
        "levels": [
            [{"gpu": "0", "uuid": "GPU-aa"}, me, 37.0],
            [{"gpu": "1", "uuid": "GPU-bb"}, None, 0.0],
        ],
    }


def test_a_refusal_of_one_gpu_leaves_the_others(tmp_path: Path) -> None:
    answer = ask(tmp_path, "GPU-aa -15\nGPU-bb 99\n")
    assert (answer["state"], answer["reason"]) == ("degraded", "gpu_lost")
    assert answer["levels"] == [[{"gpu": "1", "uuid": "GPU-bb"}, None, 99.0]]


def test_a_driver_that_is_not_loaded_is_said(tmp_path: Path) -> None:
    answer = ask(tmp_path, "init 9\n")
    assert answer == {
        "first": "driver_absent",
        "state": "off",
        "reason": "driver_absent",
        "levels": [],
    }
