"""Bytes of state.db overwritten at random places, under a delivery that runs and between two."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.fingerprint import fingerprint
from engine.rulegroup.state import GroupState, RuleKey, RuleState
from engine.state.database import StateDb
from tests.notifiers.disks import overwrite

if TYPE_CHECKING:
    from pathlib import Path

    from engine.alerts.alert import Alert

Heard = tuple[str, str, str]
"""(alert, status, startsAt)."""


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is checked at each evaluation, not once a minute."""
    monkeypatch.setattr("engine.state.file.CHECK_SECONDS", 0.0)
    monkeypatch.setattr("engine.state.file.CHECK_RATIO", 2.0)


def state_of(alerts: list[Alert], now_ms: int) -> GroupState:
    """A group whose rules have these alerts firing."""
    rules = {
        RuleKey(one.labels.get("alertname"), ""): RuleState({one.labels: one}) for one in alerts
    }
    return GroupState("r.yaml", "g", now_ms, rules)


def heard(hook: Any) -> list[tuple[Heard, bool]]:
    """What was told, and whether the message says that it may be a repeat."""
    return [
        (
            (one["labels"]["alertname"], one["status"], one["startsAt"]),
            "X-Stallwatch-Repeat" in headers,
        )
        for headers, body in list(hook.received)
        for one in json.loads(body)["alerts"]
    ]


def await_heard(hook: Any, names: set[str], status: str, state: StateDb) -> None:
    """Wait until all were told; rules are evaluated all the while."""
    for _ in range(1500):
        state.commit([], [])
        told = {name for (name, how, _), _ in heard(hook) if how == status}
        if names <= told:
            return
        time.sleep(0.02)
    raise AssertionError(names - told)


def await_known(state: StateDb, alerts: list[Alert]) -> None:
    """Wait until the notification log has it that each was told."""
    wanted = {fingerprint(one.labels) for one in alerts}
    for _ in range(1500):
        with state.transaction() as connection:
            rows = connection.execute("SELECT told FROM notify_log").fetchall()
        if wanted <= {one for (told,) in rows for one in json.loads(told)}:
            return
        time.sleep(0.02)
    raise AssertionError(wanted)


def check_repeats(hook: Any) -> None:
    """Whoever hears that something fires for a second time is told that it may be so."""
    seen: set[Heard] = set()
    for told, is_marked in heard(hook):
        assert told not in seen or is_marked, told
        seen.add(told)


@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_is_damaged_in_mid_run_keeps_nobody_from_hearing(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    path = tmp_path / "state.db"
    state = StateDb.open(path)
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=state.file)
    old = [support.firing(f"Old{number}") for number in range(30)]
    new = [support.firing(f"New{number}") for number in range(30)]

    def commit(alerts: list[Alert], firing: list[Alert]) -> None:
        assert state.commit([state_of(firing, support.unix_ms())], alerts, agent.delivery.enqueue)
        agent.delivery.wake()

    commit(old, old)
    await_heard(hook, {f"Old{number}" for number in range(30)}, "firing", state)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for one in (path, path.with_name("state.db-wal")) if seed % 2 else (path,):
        overwrite(one, draw, 12)
    commit(new, [*old, *new])
    await_heard(hook, {f"New{number}" for number in range(30)}, "firing", state)
    ended = [support.resolved(one) for one in (*old, *new)]
    commit(ended, [])
    everybody = {one.labels.get("alertname") for one in ended}
    await_heard(hook, everybody, "resolved", state)
    check_repeats(hook)
    agent.delivery.stop(support.PATIENCE)
    state.close()
    again = StateDb.open(path)
    assert again.durable
    again.close()


@pytest.mark.parametrize("seed", range(6))
def test_after_a_start_on_a_damaged_file_what_fires_is_told_and_ends(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "state.db"
    alerts = [support.firing(f"Alert{number}") for number in range(30)]
    names = {f"Alert{number}" for number in range(30)}
    config = support.configured(ops=[("webhook", {"url": hook.url})])

    def commit(agent: Any, state: StateDb, told: list[Alert], firing: list[Alert]) -> None:
        assert state.commit([state_of(firing, support.unix_ms())], told, agent.delivery.enqueue)
        agent.delivery.wake()

    state = StateDb.open(path)
    agent = make_agent(config, state=state.file)
    commit(agent, state, alerts, alerts)
    await_heard(hook, names, "firing", state)
    agent.delivery.stop(support.PATIENCE)
    state.close()
    overwrite(path, random.Random(seed), 12)
    state = StateDb.open(path)
    found = {
        one
        for group in state.load().values()
        for rule in group.rules.values()
        for one in rule.alerts
    }
    agent = make_agent(config, state=state.file)
    # What the rules' state lost fires anew, as it does after its `for`.
    now_ms = support.unix_ms()
    alerts = [one if one.labels in found else replace(one, fired_at_ms=now_ms) for one in alerts]
    lost = [one for one in alerts if one.labels not in found]
    commit(agent, state, lost, alerts)
    await_known(state, alerts)
    commit(agent, state, [support.resolved(one) for one in alerts], [])
    await_heard(hook, names, "resolved", state)
    check_repeats(hook)
    state.close()
