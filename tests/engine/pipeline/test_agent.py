"""The whole agent on a probe made of numbers: live, restarted, and dry-run from its recording."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.alert import Alert, AlertState, Suppression
from engine.config.model import Config
from engine.config.quantities import Interval
from engine.dataset import open_data
from engine.pipeline.agent import Agent
from engine.pipeline.replay import replay
from engine.pipeline.view import AgentView
from engine.promql.value import Axis, Vector
from engine.readings import Level, ProbeOptions, ProbeStatus, Produced, Reading
from engine.recording import open_recording
from engine.state import StateLockedError
from rules.loader import load_paths

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from engine.state.file import StateFile
    from rules.model import RuleFile

STEP_MS = 100
RULES = """
groups:
  - name: g
    interval: 100ms
    rules:
      - record: load:double
        expr: load * 2
      - alert: LoadHigh
        expr: load:double > 10
        for: 200ms
        annotations: {summary: "load is {{ $value }}"}
"""


class NumberProbe:
    """Reports the level it is told; the node's own, so that no process is needed."""

    name = "number"

    def __init__(self) -> None:
        self.level = 1.0
        self.emit: Callable[[Reading], None] = lambda reading: None

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        self.emit = emit
        return self.status()

    def poll(self) -> None:
        pass

    def produced(self) -> Produced:
        return Produced(self.name, (("", 0),))

    def collect(self) -> None:
        self.emit(Level("load", None, self.level))

    def status(self) -> ProbeStatus:
        return ProbeStatus(self.name, "attached")

    def stop(self) -> None:
        pass


@dataclass
class Inbox:
    """A delivery that remembers what it was handed inside committed transactions."""

    alerts: list[Alert] = field(default_factory=list)
    came: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, config: Config, state: StateFile) -> Inbox:
        return self

    def enqueue(self, connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        assert connection.in_transaction
        with self.came:
            self.alerts += alerts
            self.came.notify_all()

    def start(self) -> None:
        pass

    def wake(self) -> None:
        pass

    def samples(self) -> list[tuple[str, tuple[tuple[str, str], ...], str, float]]:
        return [("stallwatch_notify_sent_total", (), "counter", float(len(self.alerts)))]

    def suppression(self, alert: Alert) -> Suppression:
        return Suppression()

    def mounted(self, alerts: Any) -> dict[str, Any]:
        return {}

    def stop(self, timeout_seconds: float) -> None:
        pass

    def wait_for(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.alerts) >= count, timeout=60)


@dataclass
class Lab:
    config: Config
    files: tuple[RuleFile, ...]
    probe: NumberProbe = field(default_factory=NumberProbe)
    inbox: Inbox = field(default_factory=Inbox)

    def agent(self) -> Agent:
        return Agent(self.config, self.files, [self.probe], self.inbox)

    @property
    def recording(self) -> str:
        return str(self.config.state_dir / "recording")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    config = Config(
        state_dir=tmp_path / "state",
        node="n1",
        flush_interval=Interval(STEP_MS),
        evaluation_interval=Interval(STEP_MS),
    )
    return Lab(config, load_paths([rules]))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fire_and_resolve(lab: Lab) -> None:
    agent = lab.agent()
    agent.start()
    try:
        lab.probe.level = 7.0
        lab.inbox.wait_for(1)
        lab.probe.level = 1.0
        lab.inbox.wait_for(2)
    finally:
        agent.stop()


def test_an_alert_fires_and_resolves_through_every_stage(lab: Lab) -> None:
    fire_and_resolve(lab)
    fired, resolved = lab.inbox.alerts
    assert (fired.state, resolved.state) == (AlertState.FIRING, AlertState.RESOLVED)
    assert fired.labels.to_dict() == {"alertname": "LoadHigh", "node": "n1"}
    assert fired.annotations == {"summary": "load is 14"}
    assert fired.fired_at_ms is not None
    assert fired.fired_at_ms - fired.active_at_ms == 2 * STEP_MS


def test_a_dry_run_of_the_recording_tells_the_same_story(lab: Lab) -> None:
    fire_and_resolve(lab)
    told = lab.inbox.alerts[-1]
    (seen,) = replay(lab.files, open_data(lab.recording)).alerts
    for name in ("labels", "annotations", "active_at_ms", "fired_at_ms", "resolved_at_ms"):
        assert getattr(seen, name) == getattr(told, name), name
    assert (seen.value, seen.evidence) == (told.value, told.evidence)


def test_a_restart_keeps_a_firing_alert_and_tells_of_it_once(lab: Lab) -> None:
    agent = lab.agent()
    agent.start()
    lab.probe.level = 7.0
    lab.inbox.wait_for(1)
    agent.stop()
    time.sleep(4 * STEP_MS / 1000)
    again = lab.agent()
    assert again.store.series_count > 0
    again.start()
    wait_until(lambda: bool(AgentView(again).rule_groups()[0].last_evaluation_ms))
    time.sleep(5 * STEP_MS / 1000)
    lab.probe.level = 1.0
    lab.inbox.wait_for(2)
    again.stop()
    assert [alert.state for alert in lab.inbox.alerts] == [AlertState.FIRING, AlertState.RESOLVED]
    assert lab.inbox.alerts[0].active_at_ms == lab.inbox.alerts[1].active_at_ms
    recording = open_recording(lab.recording)
    (group,) = recording.groups
    assert len(recording.slots(*group).skipped) >= 2
    (seen,) = replay(lab.files, open_data(lab.recording)).alerts
    assert seen.resolved_at_ms == lab.inbox.alerts[1].resolved_at_ms


def test_the_view_answers_from_the_running_agent(lab: Lab) -> None:
    agent = lab.agent()
    view = AgentView(agent)
    assert view.unready()
    agent.start()
    try:
        assert not view.unready()
        lab.probe.level = 7.0
        lab.inbox.wait_for(1)
        (alert,) = view.alerts()
        assert alert.state is AlertState.FIRING
        (group,) = view.rule_groups()
        assert [rule.health for rule in group.rules] == ["ok", "ok"]
        value = view.query("load:double", Axis.instant(int(time.time() * 1000))).value
        assert isinstance(value, Vector)
        assert value.values.tolist() == [[14.0]]
        names = {name for name, *_ in view.samples()}
        assert {"stallwatch_probe_up", "stallwatch_notify_sent_total"} <= names
    finally:
        agent.stop()


def test_rules_that_are_reloaded_keep_the_state_of_those_that_stay(
    lab: Lab, tmp_path: Path
) -> None:
    agent = lab.agent()
    agent.start()
    try:
        lab.probe.level = 7.0
        lab.inbox.wait_for(1)
        (tmp_path / "rules.yaml").write_text(RULES.replace("load is", "the load is"))
        agent.reload(load_paths([tmp_path / "rules.yaml"]))
        wait_until(
            lambda: AgentView(agent).alerts()[0].annotations == {"summary": "the load is 14"}
        )
        assert len(lab.inbox.alerts) == 1
        (tmp_path / "rules.yaml").write_text(RULES.split("      - alert", maxsplit=1)[0])
        agent.reload(load_paths([tmp_path / "rules.yaml"]))
        lab.inbox.wait_for(2)
        assert lab.inbox.alerts[1].state is AlertState.RESOLVED
    finally:
        agent.stop()


def test_two_agents_do_not_share_a_state_folder(lab: Lab) -> None:
    agent = lab.agent()
    agent.start()
    try:
        with pytest.raises(StateLockedError, match=r"another agent \(pid \d+\)"):
            lab.agent()
    finally:
        agent.stop()


def test_agents_that_run_without_a_recording_do_not_share_a_state_folder_either(lab: Lab) -> None:
    lab.config.state_dir.mkdir(parents=True, exist_ok=True)
    (lab.config.state_dir / "recording").write_text("in the way")
    agent = lab.agent()
    try:
        with pytest.raises(StateLockedError, match="another agent"):
            lab.agent()
    finally:
        agent.stop()
    lab.agent().stop()
