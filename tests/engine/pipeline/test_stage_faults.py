"""No stage ends unnoticed: a fault costs a reading, a flush or a slot, or the agent says so."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine.aggregate.aggregator import Aggregator
from engine.aggregate.queue import FlushMark
from engine.alerts.alert import Suppression
from engine.config.model import Config
from engine.flush import Flush
from engine.labels import Labels
from engine.pipeline.agent import Agent
from engine.pipeline.stage import start_stage
from engine.readings import Level, ProbeStatus
from rules.loader import load_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.state.file import StateFile

RULES = """
groups:
  - name: g
    rules:
      - {alert: High, expr: load > 1}
"""
T = 1_700_000_000


class NoDelivery:
    def __call__(self, config: Config, state: StateFile) -> NoDelivery:
        return self

    def enqueue(self, connection: object, alerts: object) -> None: ...

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def stop(self, timeout_seconds: float) -> None: ...

    def samples(self) -> list[Any]:
        return []

    def suppression(self, alert: object) -> Suppression:
        return Suppression()

    def mounted(self, alerts: Any) -> dict[str, Any]:
        return {}


class Clock:
    now = T + 0.5

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(tmp_path: Path, clock: Clock) -> Iterator[Agent]:
    (tmp_path / "rules.yaml").write_text(RULES)
    config = Config(state_dir=tmp_path / "state", node="n")
    made = Agent(config, load_paths([tmp_path / "rules.yaml"]), [], NoDelivery(), clock=clock)
    yield made
    made.stop()


def fault(*_: object) -> None:
    raise IndexError("a bug")


def flush(agent: Agent, clock: Clock, second: int) -> None:
    clock.now = second + 0.2
    made = Flush(second * 1000, (Labels.of(__name__="load"),), np.array([2.0]))
    for sink in agent.flusher.sinks:
        sink(made)


def faults(agent: Agent, stage: str) -> float:
    name, labels = "stallwatch_stage_faults_total", (("stage", stage),)
    found = {(own[0], own[1]): own[3] for own in agent.telemetry.samples()}
    return found.get((name, labels), 0.0)


def test_an_evaluation_that_cannot_be_committed_has_not_happened_and_the_next_one_does(
    agent: Agent, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runner,) = agent.evaluator.runners
    flush(agent, clock, T + 10)
    with monkeypatch.context() as patch:
        patch.setattr(agent.delivery, "enqueue", fault)
        assert agent.evaluator.turn()
    assert not runner.statuses[0].alerts
    assert runner.state.last_evaluation_ms is None
    assert faults(agent, "evaluator") == 1
    flush(agent, clock, T + 20)
    assert agent.evaluator.turn()
    (alert,) = runner.statuses[0].alerts
    assert alert.fired_at_ms == (T + 20) * 1000


def test_a_reading_that_cannot_be_aggregated_is_left_and_counted(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Aggregator, "add", fault)
    agent.flusher.take(("probe", Level("load", None, 1.0)))
    assert faults(agent, "flusher") == 1


def test_flushes_that_fail_one_after_another_end_the_stage(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Aggregator, "flush", fault)
    for second in (10, 20):
        agent.flusher.take(FlushMark((T + second) * 1000))
    with pytest.raises(IndexError):
        agent.flusher.take(FlushMark((T + 30) * 1000))


@pytest.mark.parametrize("stage", ["collector", "flusher", "evaluator"])
def test_a_stage_that_ends_is_a_fault_of_the_agent(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    class Broken:
        closed = False

        def __getattr__(self, name: str) -> Callable[..., object]:
            return fail

    def fail(*_: object) -> object:
        raise OSError("no more")

    owner: dict[str, Any] = {
        "collector": agent.collector,
        "flusher": agent.flusher,
        "evaluator": agent.evaluator,
    }
    name = {"collector": "clock", "flusher": "queue", "evaluator": "clock"}[stage]
    monkeypatch.setattr(owner[stage], name, fail if name == "clock" else Broken())
    thread = start_stage(stage, owner[stage]._run, owner[stage].on_fault)
    thread.join(60)
    assert agent.fault.startswith(f"the {stage} has failed: OSError: no more\n")


def test_a_library_that_calls_exit_in_a_stage_is_a_fault_too() -> None:
    heard: list[tuple[str, BaseException]] = []
    start_stage("probe", lambda: sys.exit(1), lambda *told: heard.append(told)).join(60)
    assert [(name, type(error)) for name, error in heard] == [("probe", SystemExit)]


class Exiting:
    """A probe whose library ends the process, as bcc's does for what it cannot compile."""

    name = "exiting"

    def start(self, *_: object) -> ProbeStatus:
        raise SystemExit(1)

    def stop(self) -> None: ...


def test_a_probe_whose_library_calls_exit_is_switched_off_alone(agent: Agent) -> None:
    probe: Any = Exiting()
    agent.collector._attach(probe)
    assert agent.collector.statuses["exiting"].state == "off"


def test_a_time_that_waits_for_its_flush_is_evaluated_after_a_reload(
    agent: Agent, clock: Clock
) -> None:
    flush(agent, clock, T + 10)
    agent.evaluator.turn()
    clock.now = T + 20.1
    agent.reload(agent.files)
    flush(agent, clock, T + 20)
    assert agent.evaluator.turn()
    assert agent.evaluator.runners[0].state.last_evaluation_ms == (T + 20) * 1000
