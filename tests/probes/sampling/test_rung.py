"""From breakpoints to samples: a function of a user's own probe that is too hot to be counted."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from engine.readings import Count, Level, ProbeOptions
from probes.budget.sampled import BOUND, SECONDS
from probes.custom.probe import CustomProbe

if TYPE_CHECKING:
    from pathlib import Path

    from engine.readings import Reading

SETTINGS: dict[str, object] = {
    "budget": {"ratio": 0.0001, "ladder": ["sampled"]},
    "probes": [
        {
            "name": "spin",
            "library": "libhot.so",
            "symbol": "hot",
            "metrics": [{"name": "spins_total", "take": "count"}],
        }
    ],
}


def mode(readings: list[Reading]) -> str:
    told = [e for e in readings if isinstance(e, Level) and e.metric == "stallwatch_probe_mode"]
    (found,) = [dict(e.labels)["mode"] for e in told]
    return found


@pytest.mark.root
def test_a_function_over_its_budget_is_sampled_and_its_time_told(spinner: Path) -> None:
    readings: list[Reading] = []
    probe = CustomProbe()
    with subprocess.Popen([str(spinner), "50"], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            probe.start(ProbeOptions(SETTINGS), readings.append)
            for _ in range(8):
                time.sleep(0.6)  # flushes that follow each other sooner tell nothing of a rate
                readings.clear()
                probe.poll()
                probe.collect()
        finally:
            child.kill()
            probe.stop()
    assert mode(readings) == "sampled"
    own = [e for e in readings if isinstance(e, Count | Level) and e.process is not None]
    mine = [e for e in own if e.process and e.process.pid == child.pid]
    labels = (("probe", "custom"), ("function", "spin"))
    (bound,) = [e for e in mine if isinstance(e, Level) and e.metric == BOUND]
    (count,) = [e for e in mine if isinstance(e, Count) and e.metric == SECONDS]
    assert count.labels == bound.labels == labels
    assert count.delta >= 0
    assert bound.value > 0
