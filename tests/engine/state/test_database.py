from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.alerts.alert import Alert, AlertState
from engine.labels import Labels
from engine.rulegroup.state import GroupState, RuleKey, RuleState
from engine.series import STALE_NAN, Sample, stale_mask
from engine.state import StateDb
from engine.state.shelter import left_in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LABELS = Labels.of(alertname="Stalled", task_id="slurm:7.0")
PENDING = Alert(LABELS, {"text": "grüße"}, AlertState.PENDING, math.inf, 60_000)
FIRING = Alert(
    LABELS,
    {},
    AlertState.FIRING,
    0.1 + 0.2,
    60_000,
    fired_at_ms=120_000,
    last_evaluation_ms=180_000,
    evidence=({"rank": "0", "pid": 17, "first": 61.5},),
    rule_file="r.yaml",
    group="comm",
    keep_firing_since_ms=170_000,
)


def state(alert: Alert, at_ms: int = 180_000, group: str = "comm") -> GroupState:
    key = RuleKey("Stalled", '{tier="1"}')
    series = frozenset({Labels.of(__name__="ALERTS", alertname="Stalled")})
    return GroupState("r.yaml", group, at_ms, {key: RuleState({alert.labels: alert}, series)})


@pytest.mark.parametrize("alert", [PENDING, FIRING])
def test_what_is_saved_comes_back(tmp_path: Path, alert: Alert) -> None:
    database = StateDb.open(tmp_path / "deeper" / "state.db")
    assert database.commit([state(alert)], [])
    database.close()
    again = StateDb.open(tmp_path / "deeper" / "state.db")
    assert again.load() == {("r.yaml", "comm"): state(alert)}
    assert again.durable
    assert again.notices == ()


def test_a_rule_that_is_gone_is_deleted_and_a_group_can_be_forgotten(tmp_path: Path) -> None:
    database = StateDb.open(tmp_path / "state.db")
    database.commit([state(FIRING), state(FIRING, group="gpu")], [])
    database.commit([GroupState("r.yaml", "comm", 190_000)], [])
    with database.transaction() as connection:
        database.forget(connection, "r.yaml", "gpu")
    assert database.load() == {("r.yaml", "comm"): GroupState("r.yaml", "comm", 190_000)}


def test_alert_state_and_outbox_commit_together_or_not_at_all(tmp_path: Path) -> None:
    database = StateDb.open(tmp_path / "state.db")
    database.commit([state(PENDING)], [])
    heard: list[list[Alert]] = []

    def full(connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    def outbox(connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        heard.append(list(alerts))

    assert not database.commit([state(FIRING)], [FIRING], full)
    assert database.failed_total == 1
    assert database.backlog == 1
    assert database.load() == {("r.yaml", "comm"): state(PENDING)}
    assert database.commit([state(FIRING, 190_000)], [], outbox)
    assert heard == [[FIRING]]
    assert database.backlog == 0
    assert database.load() == {("r.yaml", "comm"): state(FIRING, 190_000)}


def refuse(connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_it_is_up_while_commits_reach_a_file_that_the_next_start_finds(tmp_path: Path) -> None:
    database = StateDb.open(tmp_path / "state.db")
    up = [database.up]
    database.commit([], [FIRING], refuse)
    up.append(database.up)
    database.close()
    database = StateDb.open(tmp_path / "state.db")
    up.append(database.up)
    (tmp_path / "state.db").unlink()
    up.append(database.up)
    (tmp_path / "state.db").touch()
    up.append(database.up)
    database.commit([], [])
    up.append(database.up)
    database.close()
    assert up == [True, False, True, False, False, True]


def test_what_the_disk_refuses_goes_on_in_memory_and_comes_back(tmp_path: Path) -> None:
    database = StateDb.open(tmp_path / "state.db")
    assert database.commit([state(PENDING), state(PENDING, group="gpu")], [])
    locker = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    heard: list[Alert] = []
    assert database.commit([state(FIRING)], [FIRING], lambda _, alerts: heard.extend(alerts))
    assert heard == [FIRING]
    assert not database.durable
    assert "database is locked" in database.file.reason
    locker.execute("ROLLBACK")
    locker.close()
    database.close()
    again = StateDb.open(tmp_path / "state.db")
    assert again.durable
    assert again.load() == {
        ("r.yaml", "comm"): state(FIRING),
        ("r.yaml", "gpu"): state(PENDING, group="gpu"),
    }
    again.close()


def test_an_error_of_the_caller_rolls_back_and_is_raised(tmp_path: Path) -> None:
    database = StateDb.open(tmp_path / "state.db")

    def fail() -> None:
        with database.transaction() as connection:
            database.save(connection, state(FIRING))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert database.load() == {}


def test_a_commit_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    script = f"""
        import os, signal
        from engine.rulegroup.state import GroupState
        from engine.state import StateDb
        database = StateDb.open({str(path)!r})
        database.commit([GroupState("r.yaml", "comm", 10_000)], [])
        with database.transaction() as connection:
            database.save(connection, GroupState("r.yaml", "comm", 20_000))
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert StateDb.open(path).load() == {("r.yaml", "comm"): GroupState("r.yaml", "comm", 10_000)}


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be one" * 50, b"SQLite format 3\0" * 99]
)
def test_a_corrupt_file_is_set_aside_with_a_notice(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    database = StateDb.open(path)
    (aside,) = tmp_path.glob("state.db.corrupt-*")
    assert aside.read_bytes() == content
    assert "not a sound database" in database.notices[0]
    assert aside.name in database.notices[0]
    assert database.durable
    assert database.commit([state(FIRING)], [])


def test_a_file_damaged_in_the_middle_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = StateDb.open(path)
    database.commit([state(FIRING, group=f"group {i}") for i in range(200)], [])
    database.close()
    content = bytearray(path.read_bytes())
    content[4096:-4096] = b"\xa5" * (len(content) - 8192)
    path.write_bytes(content)
    assert StateDb.open(path).load() == {}
    assert list(tmp_path.glob("state.db.corrupt-*"))


def test_a_file_of_a_newer_stallwatch_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    StateDb.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alert_schema SET version = 99")
    connection.close()
    database = StateDb.open(path)
    assert "written by a newer stallwatch (schema 99" in database.notices[0]
    assert list(tmp_path.glob("state.db.newer-*"))


def test_where_nothing_can_be_written_the_state_lives_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    database = StateDb.open(tmp_path / "file" / "state.db")
    assert not database.durable
    assert "cannot be written" in database.notices[0]
    assert database.commit([state(FIRING)], [])
    assert database.load() == {("r.yaml", "comm"): state(FIRING)}
    database.close()
    (tmp_path / "file").unlink()
    again = StateDb.open(tmp_path / "file" / "state.db")
    assert again.load() == {("r.yaml", "comm"): state(FIRING)}
    assert again.durable
    again.close()
    assert left_in_memory(tmp_path / "file" / "state.db") is None


def test_what_the_last_evaluation_wrote_is_kept_with_it_bit_for_bit(tmp_path: Path) -> None:
    state = GroupState("rules.yaml", "g", 20_000)
    samples = [
        Sample(Labels.of(__name__="x", rank="0"), 15_000, STALE_NAN),
        Sample(Labels.of(__name__="x", rank="1"), 20_000, 0.1),
    ]
    database = StateDb.open(tmp_path / "state.db")
    database.commit([GroupState("rules.yaml", "g", 10_000)], [], samples=samples[1:])
    database.commit([state], [], samples=samples)
    database.close()
    again = StateDb.open(tmp_path / "state.db")
    (found,) = again.evaluations()
    assert (found.file, found.group, found.time_ms) == ("rules.yaml", "g", 20_000)
    assert [(own.labels, own.timestamp_ms) for own in found.samples] == [
        (own.labels, own.timestamp_ms) for own in samples
    ]
    values = np.array([own.value for own in found.samples])
    assert stale_mask(values).tolist() == [True, False]
    assert values[1] == 0.1
    again.commit([], [], gone=[("rules.yaml", "g")])
    assert again.evaluations() == []
    again.close()


def with_a_lost_row(path: Path) -> StateDb:
    """A database whose rule groups have alerts that fire, and that has lost a row since."""
    database = StateDb.open(path)
    database.commit([state(FIRING), state(FIRING, group="gpu")], [FIRING])
    database.file.lost_rows()
    return database


def test_a_group_that_is_gone_can_be_forgotten_after_rows_were_lost(tmp_path: Path) -> None:
    database = with_a_lost_row(tmp_path / "state.db")
    assert database.commit([], [], gone=[("r.yaml", "gpu")])
    assert database.load().keys() == {("r.yaml", "comm")}
    database.close()


def test_after_rows_were_lost_each_group_tells_once_more_what_fires(tmp_path: Path) -> None:
    database = with_a_lost_row(tmp_path / "state.db")
    heard: list[Alert] = []
    for _ in range(2):
        for group in ("comm", "gpu"):
            database.commit([state(FIRING, group=group)], [], lambda _, told: heard.extend(told))
    assert heard == [FIRING, FIRING]
    database.close()
