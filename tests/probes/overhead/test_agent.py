from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MEASUREMENT = """
import sys, time
from pathlib import Path
from probes.overhead.agent import TrialAgent
agent = TrialAgent(Path(sys.argv[1]), probes=("process",), installed=("process",))
agent.start()
print(agent.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.root
def test_a_measurement_that_is_killed_leaves_no_agent_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEASUREMENT, str(tmp_path)]
    measurement = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert measurement.stdout is not None
    agent = int(measurement.stdout.readline())
    os.kill(agent, 0)
    measurement.send_signal(signal.SIGKILL)
    measurement.wait()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{agent}").exists():
        assert time.monotonic() < deadline, "the agent goes on"
        time.sleep(0.1)
