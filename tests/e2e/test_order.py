"""The order of events on a node, and what the agent says of the node's clock."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.recording import open_recording
from tests.e2e.agent import AgentProcess, wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


def test_events_are_numbered_in_order_from_the_moment_the_probes_were_ready(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "agent", rules=[])
    agent.start()
    try:
        wait_until(lambda: agent.query("node_clock_steps_total"), "the clock to be told of", 30)
        (synchronized,) = agent.query("node_clock_synchronized")
        assert synchronized[1] in {0.0, 1.0}
        victims = []
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            victim = subprocess.Popen(["sleep", "60"])
            victim.send_signal(number)
            os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)  # its entry in /proc stays
            victims.append(victim)
        wait_until(lambda: _killed(agent) >= 3, "three ends to be counted", 30)
    finally:
        assert agent.stop() == 0
    pids = [victim.pid for victim in victims]
    for victim in victims:
        victim.wait()
    recording = open_recording(str(agent.recording))
    events = recording.all_events(0, recording.end_ms + 60_000)
    by_number = {int(dict(event.fields)["sequence"]): event for event in events}
    assert sorted(by_number) == list(range(len(events)))
    ready = by_number[0]
    assert ready.kind == "probes_ready"
    assert "process" in str(dict(ready.fields)["probes"]).split(",")
    order = [by_number[number].pid for number in sorted(by_number)]
    assert [pid for pid in order if pid in pids] == pids


def _killed(agent: AgentProcess) -> float:
    return sum(value for _, value in agent.query("process_killed_total"))
