"""Without privileges a probe of a library is off, and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
from importlib.metadata import entry_points
from engine.readings import ProbeOptions
(found,) = entry_points(group="stallwatch.probes", name=sys.argv[1])
probe = found.load()()
status = probe.start(ProbeOptions(), lambda _: None)
probe.poll(); probe.produced(); probe.collect(); probe.stop(); probe.stop()
print(status.state, bool(status.reason and status.detail))
"""


@pytest.mark.parametrize("name", ["cuda", "gloo", "mpi", "nccl", "torch_step"])
def test_without_privileges_it_is_off_and_says_why(name: str) -> None:
    command = [sys.executable, "-c", CODE, name]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.split() == ["off", "True"]
    assert "Traceback" not in answer.stderr
