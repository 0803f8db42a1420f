"""The dispatcher over a real state.db, turn by turn, under a clock that only tests move."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from engine.state.connection import StateConnection
from engine.state.file import StateFile
from notifiers.dispatch import tables
from notifiers.dispatch.dispatcher import Dispatcher
from notifiers.dispatch.loop import DispatchLoop
from notifiers.dispatch.message import Addressee
from notifiers.dispatch.muting import Muting
from notifiers.inhibition import Inhibitor
from notifiers.outbox import Outbox
from notifiers.routing.intervals import Intervals
from notifiers.routing.plan import everybody

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.group import Timer
    from notifiers.dispatch.log import NotificationLog

KEY = "ops/fake/0"


class Silences:
    """None; or the database that they are in cannot be read."""

    failure: Exception | None = None

    def current(self) -> Silences:
        if self.failure is not None:
            raise self.failure
        return self

    def silencing(self, labels: Labels, now_ms: int) -> tuple[str, ...]:
        return ()


class Bench:
    def __init__(self, path: Path) -> None:
        self.now_ms = 1_700_000_000_000
        self.path = str(path)
        self.silences = Silences()
        self.outbox = Outbox(self.path)
        self.outbox.create()
        self.database = StateConnection(StateFile(self.path))
        self.connection = self.database.now()
        tables.create_tables(self.connection)
        self.loop = DispatchLoop(self.path, self.open, lambda: None, lambda: self.now_ms)

    def open(self, log: NotificationLog, timers: Mapping[str, Timer]) -> Dispatcher:
        muting = Muting(Inhibitor(()), Intervals(()), self.silences)
        return Dispatcher(everybody(["ops"]), {"ops": [Addressee(KEY)]}, muting, log, timers)

    def fire(self, *alerts: Alert) -> None:
        tables.put_alerts(self.connection, alerts)

    def step(self, seconds: float = 11) -> None:
        self.now_ms += round(seconds * 1000)
        self.loop.step(self.database)

    def messages(self) -> list[str]:
        return [entry.status for entry in self.outbox.entries("pending")]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "state.db")


def test_what_saving_takes_does_not_delay_the_next_turn(
    bench: Bench, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tables.save_log

    def slow(*arguments: Any) -> None:
        bench.now_ms += 700
        saved(*arguments)

    monkeypatch.setattr("notifiers.dispatch.tables.save_log", slow)
    bench.fire(support.firing())
    # The group's interval is ten seconds, counted from when it spoke.
    assert bench.loop.step(bench.database) == 9.3


def test_a_turn_that_breaks_off_in_its_middle_is_done_again_as_a_whole(
    bench: Bench, support: Any
) -> None:
    bench.fire(support.firing("One"), support.firing("Two"))
    bench.silences.failure = sqlite3.OperationalError("database is locked")
    with pytest.raises(sqlite3.OperationalError):
        bench.step()
    bench.silences.failure = None
    bench.step()
    assert bench.messages() == ["firing", "firing"]


def test_a_turn_that_cannot_be_written_is_written_later(
    bench: Bench, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.fire(support.firing())

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("notifiers.outbox.add", full)
        for _ in range(3):
            with pytest.raises(sqlite3.OperationalError):
                bench.step()
    bench.fire(support.resolved(support.firing()))
    bench.step()
    assert bench.messages() == ["firing", "resolved"]


def test_the_thread_survives_a_fault_and_says_so_once(
    bench: Bench, support: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifiers.turns.FAULT_RETRY_SECONDS", 0.001)
    bench.fire(support.firing())
    failures = iter(range(20))

    class Faulty(Silences):
        def current(self) -> Silences:
            if next(failures, None) is not None:
                raise ZeroDivisionError("a fault")
            return self

    bench.silences = Faulty()
    bench.loop.start()
    try:
        while not bench.messages():
            pass
    finally:
        bench.loop.stop(60)
    assert bench.messages() == ["firing"]
    said = [record.getMessage() for record in caplog.records]
    assert sum("trying again until it succeeds: a fault" in line for line in said) == 1


def test_an_alert_that_cannot_be_read_is_named_and_holds_up_nobody(
    bench: Bench, support: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.connection.execute("INSERT INTO notify_alert (fingerprint, alert) VALUES ('f', '{}')")
    bench.connection.execute(
        "INSERT INTO notify_log VALUES ('k', 'i', 0, 9e15, '[', '[]', '[]', 'ops', 0)"
    )
    bench.fire(support.firing())
    bench.step()
    assert bench.messages() == ["firing"]
    assert "cannot be read" in caplog.text


def test_labels_that_are_no_utf_8_are_told(bench: Bench, support: Any) -> None:
    bench.fire(support.firing(comm="python\udcff"))
    bench.step()
    assert bench.messages() == ["firing"]


def test_nothing_is_left_of_what_is_over(bench: Bench, support: Any) -> None:
    alerts = [support.firing(rank=str(rank)) for rank in range(50)]
    bench.fire(*alerts)
    bench.step()
    bench.fire(*map(support.resolved, alerts))
    bench.step()
    for seconds in (30, 30, 9 * 3600):
        bench.step(seconds)
    for table in ("notify_alert", "notify_group", "notify_log"):
        (left,) = bench.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert (table, left) == (table, 0)


def test_timers_of_groups_that_did_not_come_back_are_forgotten(bench: Bench) -> None:
    bench.connection.execute("INSERT INTO notify_group VALUES ('gone', ?, 1)", (bench.now_ms,))
    bench.step(60)
    assert bench.connection.execute("SELECT count(*) FROM notify_group").fetchone() == (0,)
