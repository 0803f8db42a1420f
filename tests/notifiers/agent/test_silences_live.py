"""Silences of a running agent: by command, seen on its alerts, kept through kill -9."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from engine.cli.main import main
from notifiers.silences.store import Silences

PATIENCE = 60.0


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().out.strip()

    return call


def silenced(run: Any, agent: Any) -> dict[str, list[str]]:
    """Silences by the rank that an alert has, once both alerts fire."""
    deadline = time.monotonic() + PATIENCE
    while True:
        alerts = json.loads(run("alerts", "--url", agent.url, "--format", "json"))["alerts"]
        if [one["state"] for one in alerts] == ["firing", "firing"]:
            return {one["labels"]["rank"]: one.get("silencedBy", []) for one in alerts}
        assert time.monotonic() < deadline, alerts
        time.sleep(0.1)


def test_a_silence_survives_kill_9_and_is_changed_where_no_agent_runs(run: Any, agent: Any) -> None:
    matchers = ["Slow", "rank=1", "cluster=a"]
    identity = run("silence", "add", *matchers, "--comment", "c", "--url", agent.url)
    assert silenced(run, agent) == {"1": [identity], "2": []}
    agent.kill()
    other = run("silence", "add", "rank=2", "--comment", "c", "--config", str(agent.config))
    agent.start()
    assert silenced(run, agent) == {"1": [identity], "2": [other]}
    run("silence", "expire", identity, "--url", agent.url)
    assert silenced(run, agent) == {"1": [], "2": [other]}


def test_nobody_is_told_of_what_is_silenced_until_the_silence_ends(
    run: Any, make_agent: Any, hook: Any
) -> None:
    agent = make_agent(hook.url)
    state = agent.config.parent / "state"
    state.mkdir()
    Silences(str(state / "state.db")).close()
    identity = run("silence", "add", "rank=1", "--comment", "c", "--config", str(agent.config))
    agent.start()

    def told() -> list[str]:
        bodies = [json.loads(body) for _, body in hook.received]
        return [alert["labels"]["rank"] for body in bodies for alert in body["alerts"]]

    hook.wait_for(1)
    assert silenced(run, agent) == {"1": [identity], "2": []}
    # Evaluations and flushes of both groups come and go.
    time.sleep(3)
    assert told() == ["2"]
    run("silence", "expire", identity, "--url", agent.url)
    hook.wait_for(2)
    assert told() == ["2", "1"]


def test_a_change_to_the_state_db_of_a_running_agent_is_seen(run: Any, agent: Any) -> None:
    # The configuration's port is 0, where nobody answers: the command takes the file.
    identity = run("silence", "add", "rank=1", "--comment", "c", "--config", str(agent.config))
    assert silenced(run, agent)["1"] == [identity]
    run("silence", "expire", identity, "--config", str(agent.config))
    assert silenced(run, agent)["1"] == []
