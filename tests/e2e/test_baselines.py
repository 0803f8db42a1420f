"""What a real agent learns survives kill -9 and a stop, and a dry-run learns the same.

The agent watches itself: what it recorded of its own metrics is folded again from the first sample
on, without any snapshot, and has to give the bits that its rules recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.baselines.folds import Folds
from engine.baselines.settings import BaselineSettings
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis, Vector
from engine.recording import Recording, open_recording
from rules.promql.ast import VectorSelector
from rules.promql.parser import parse
from tests.e2e.agent import AgentProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP = "250ms"
EXPRESSIONS = {
    "score": "anomaly_score(stallwatch_process_resident_bytes)",
    "again": "anomaly_score(stallwatch_process_resident_bytes)",
    "busy": "anomaly_score(rate(stallwatch_process_cpu_seconds_total[5s]))",
    "rarely": "anomaly_score(rate(stallwatch_process_cpu_seconds_total[5s]))",
}
RULES = f"""
groups:
  - name: often
    rules:
      - {{record: score, expr: "{EXPRESSIONS["score"]}"}}
      - {{record: again, expr: "{EXPRESSIONS["again"]}"}}
      - {{record: busy, expr: "{EXPRESSIONS["busy"]}"}}
  - name: rarely
    interval: 1s
    rules:
      - {{record: rarely, expr: "{EXPRESSIONS["rarely"]}"}}
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    settings: dict[str, object] = {
        "flush_interval": STEP,
        "evaluation_interval": STEP,
        "baselines": {"resolution": STEP},
    }
    probes: dict[str, dict[str, object]] = {"tcp_retransmit": {"enabled": False}}
    agent = AgentProcess(tmp_path / "agent", [rules], probes=probes, settings=settings)
    agent.start()
    yield agent
    agent.stop()


def folded(recording: Recording, text: str, times_ms: np.ndarray) -> np.ndarray:
    folds = Folds(BaselineSettings(resolution_ms=250), recording.start_ms)
    axis = Axis(times_ms, 0, rule=True)
    value = evaluate(parse(text), axis, recording, Options(folds=folds)).value
    assert isinstance(value, Vector)
    assert len(value.labels) == 1
    return np.where(value.present[0], value.values[0], np.nan)


@pytest.mark.timeout(900)
def test_kill_9_and_replay_give_the_same_bits(agent: AgentProcess) -> None:
    wait_until(lambda: agent.query("stallwatch_baseline_series"), "a flush that tells of baselines")
    assert {value for _, value in agent.query("stallwatch_baseline_ready")} == {0.0}
    wait_until(lambda: agent.query("score and busy and rarely"), "scores")
    agent.kill()
    agent.start()
    wait_until(lambda: agent.query("count_over_time(rarely[1h]) > 20"), "scores after a kill")
    agent.stop()
    assert list(agent.recording.glob("baselines-*.swb"))

    recording = open_recording(str(agent.recording))
    assert recording.baselines is not None
    assert recording.baselines["resolution_ms"] == 250
    for name, text in EXPRESSIONS.items():
        selector = parse(name)
        assert isinstance(selector, VectorSelector)
        (series,) = recording.select_derived(selector.matchers, 0, 1 << 62)
        numbers = ~np.isnan(series.values)
        times, values = series.timestamps_ms[numbers], series.values[numbers]
        assert len(values) > 10
        assert values.tobytes() == folded(recording, text, times).tobytes(), name
