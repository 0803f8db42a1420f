"""The dispatcher over a real state.db, turn by turn, under a clock that only tests move."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.state.connection import StateConnection
from engine.state.file import StateFile
from notifiers.dispatch import rescue, tables
from notifiers.dispatch.dispatcher import Dispatcher
from notifiers.dispatch.flapping import FlapRule, Flaps
from notifiers.dispatch.limiting import RateLimit
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
    def __init__(
        self, path: Path, flapping: FlapRule | None = None, limit: RateLimit | None = None
    ) -> None:
        self.flapping, self.limit = flapping, limit
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
        flaps = None if self.flapping is None else Flaps(self.flapping)
        to = {"ops": [Addressee(KEY, limit=self.limit)]}
        return Dispatcher(everybody(["ops"]), to, muting, log, timers, flaps=flaps)

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


@pytest.mark.parametrize("text", ["", "{", "[", '"a"', "1", "null", "[[1]]", '{"a": 1}'])
def test_a_text_that_is_damaged_holds_up_nobody_in_whatever_table_it_is(
    bench: Bench, support: Any, text: str
) -> None:
    bench.flapping, bench.limit = FlapRule(), RateLimit(20, 600_000)
    for insert in (
        "INSERT INTO notify_alert (fingerprint, alert) VALUES ('f', ?)",
        f"INSERT INTO notify_log VALUES ('k', '{KEY}', 0, 9e15, ?, '[]', '[]', 'ops', 0)",
        f"INSERT INTO notify_log VALUES ('l', '{KEY}', 0, 9e15, '[\"f\"]', ?, '[]', 'ops', 0)",
        f"INSERT INTO notify_log VALUES ('m', '{KEY}', 0, 9e15, '[\"g\"]', '[]', ?, 'ops', 0)",
        "INSERT INTO notify_sent_as VALUES ('f', ?)",
        "INSERT INTO notify_sent_as VALUES ('g', ?)",
        "INSERT INTO notify_course VALUES ('f', 1, 0, ?, 0, 0, 0)",
        f"INSERT INTO notify_tally VALUES ('{KEY}', 1, 0, ?)",
        f"INSERT INTO notify_waiting (integration, group_key, entry) VALUES ('{KEY}', 'k', ?)",
        f"INSERT INTO notify_refusal VALUES (1, 1, '{KEY}', 'k', ?, '[]')",
        f"INSERT INTO notify_refusal VALUES (2, 1, '{KEY}', 'k', '[]', ?)",
    ):
        bench.connection.execute(insert, (text,))
    bench.fire(support.firing())
    bench.step()
    bench.step()
    assert bench.messages() == ["firing"]


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


@pytest.mark.parametrize("kill_each", [False, True])
def test_an_alert_that_flaps_does_so_after_a_kill_and_its_end_is_told(
    tmp_path: Path, support: Any, *, kill_each: bool
) -> None:
    rule = FlapRule(changes=3, window_ms=600_000, calm_ms=60_000)
    path = tmp_path / "state.db"
    bench = Bench(path, rule)
    one = support.firing()
    for number in range(12):
        at_ms = bench.now_ms
        fires = replace(one, active_at_ms=at_ms, fired_at_ms=at_ms)
        over = replace(support.resolved(one), resolved_at_ms=at_ms)
        bench.fire(over if number % 2 else fires)
        bench.step()
        if kill_each:
            # What was not in a transaction is lost with the process.
            now_ms = bench.now_ms
            bench = Bench(path, rule)
            bench.now_ms = now_ms
    # Fired, resolved, fired again, and then, as the fourth change came, that it flaps.
    assert bench.messages() == ["firing", "resolved", "firing", "firing"]
    said = [
        entry.alerts[0].annotations.get("flapping") for entry in bench.outbox.entries("pending")
    ]
    assert said == [None, None, None, "changed 4 times in 33s, resolved now"]
    bench.step(48)
    assert len(bench.messages()) == 4
    bench.step(12)
    assert bench.messages()[4:] == ["resolved"]
    last = list(bench.outbox.entries("pending"))[-1]
    assert last.alerts[0].annotations["flapping"] == "changed 12 times in 2m1s, calm for 1m"
    courses = bench.connection.execute("SELECT flaps FROM notify_course").fetchall()
    assert courses == [(0,)]


def test_how_alerts_changed_is_read_past_a_row_that_is_damaged(bench: Bench, support: Any) -> None:
    bench.flapping = FlapRule()
    insert = "INSERT INTO notify_course VALUES (?, 1, ?, ?, 0, 0, 0)"
    for name, times in (("a", "nonsense"), ("b", "[5]")):
        bench.connection.execute(insert, (name, bench.now_ms, times))
    bench.fire(support.firing())
    bench.step()
    assert bench.messages() == ["firing"]
    assert bench.loop.dispatcher is not None
    flaps = bench.loop.dispatcher.flaps
    assert flaps is not None
    assert flaps.course("a") is None
    assert flaps.course("b") is not None


@pytest.mark.parametrize("kill_each", [False, True])
def test_what_a_limit_holds_back_outlives_a_kill(
    tmp_path: Path, support: Any, *, kill_each: bool
) -> None:
    limit = RateLimit(2, 600_000)
    path = tmp_path / "state.db"
    bench = Bench(path, limit=limit)
    alerts = [support.firing(name) for name in ("One", "Two", "Three", "Four")]
    for alert in [*alerts, support.resolved(alerts[2]), support.resolved(alerts[0])]:
        bench.fire(alert)
        bench.step()
        if kill_each:
            now_ms = bench.now_ms
            bench = Bench(path, limit=limit)
            bench.now_ms = now_ms
    assert bench.messages() == ["firing", "firing"]
    bench.step(600)
    bench.step(600)
    pending = list(bench.outbox.entries("pending"))
    names = [entry.alerts[0].labels.get("alertname") for entry in pending]
    assert names == ["One", "Two", "Four", "One"]
    said = pending[2].alerts[0].annotations["held_back"]
    # Three, its end, Four, and the end of One.
    assert said.startswith("4 messages since ")
    assert said.endswith(", at most 2 in 10m: Four, One, Three; 1 group waits")
    assert "held_back" not in pending[3].alerts[0].annotations


def test_what_was_held_back_is_read_past_a_row_that_is_damaged(bench: Bench, support: Any) -> None:
    bench.limit = RateLimit(1, 60_000)
    bench.connection.execute("INSERT INTO notify_tally VALUES (?, 3, 5, 'nonsense')", (KEY,))
    bench.connection.execute(
        "INSERT INTO notify_waiting (integration, group_key, entry) VALUES (?, 'a', '{}')", (KEY,)
    )
    bench.fire(support.firing())
    bench.step()
    assert bench.messages() == ["firing"]


def test_a_damaged_database_gets_back_what_flaps_and_what_waits(
    tmp_path: Path, support: Any
) -> None:
    bench = Bench(tmp_path / "state.db", FlapRule(2, 600_000, 60_000), RateLimit(1, 600_000))
    one = support.firing("One")
    for number in range(4):
        at_ms = bench.now_ms
        fires = replace(one, active_at_ms=at_ms, fired_at_ms=at_ms)
        over = replace(support.resolved(one), resolved_at_ms=at_ms)
        bench.fire(over if number % 2 else fires)
        bench.fire(*[support.firing(name) for name in ("Two", "Three") if number == 3])
        bench.step()
    tables_of = ("notify_alert", "notify_course", "notify_tally", "notify_waiting")
    before = {name: sorted(map(repr, rows(bench, name))) for name in tables_of}
    assert all(before.values())
    for name in tables_of:
        bench.connection.execute(f"DELETE FROM {name}")
    dispatcher, log = bench.loop._dispatcher, bench.loop._log
    assert dispatcher is not None
    assert log is not None
    rescue.write_again(bench.connection, dispatcher, log)
    # One stands there as it is: over, although it counts as firing while it flaps.
    assert {name: sorted(map(repr, rows(bench, name))) for name in tables_of} == before


def rows(bench: Bench, table: str) -> list[tuple[Any, ...]]:
    """All columns but the number of the row."""
    found = bench.connection.execute(f"SELECT * FROM {table}").fetchall()
    return [row if isinstance(row[0], str) else row[1:] for row in found]
