from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, ProbeOptions
from probes.process_exec.probe import ProcessExecProbe

if TYPE_CHECKING:
    from engine.readings import Reading


@pytest.mark.root
def test_execs_are_counted_for_the_node_and_consumed_matches_produced() -> None:
    readings: list[Reading] = []
    probe = ProcessExecProbe()
    try:
        assert probe.start(ProbeOptions(), readings.append).state == "attached"
        for _ in range(5):
            subprocess.run(["true"], check=True)
        probe.collect()
        (count,) = readings
        assert isinstance(count, Count)
        assert (count.metric, count.process) == ("process_exec_total", None)
        assert count.delta == count.weight
        assert count.delta >= 5
        assert dict(probe.produced().produced)[""] >= count.delta
    finally:
        probe.stop()
    assert probe.status().state == "off"
    probe.stop()


def test_a_probe_that_never_started_answers_everything() -> None:
    probe = ProcessExecProbe()
    probe.poll()
    probe.collect()
    assert probe.produced().produced == ()
    probe.stop()
