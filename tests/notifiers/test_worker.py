"""A worker step by step, under a clock that only the test moves."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.alerts.fingerprint import fingerprint
from notifiers.backoff import Backoff
from notifiers.dispatch.message import Message
from notifiers.outbox import KEPT_MS, Outbox, add
from notifiers.receivers.receiver import SendError
from notifiers.refusals import refusals
from notifiers.worker import IDLE_SECONDS, Integration, SendOptions, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification
    from notifiers.refusals import Refusal

KEY = "ops/fake/0"


class FakeTarget:
    """Takes notifications, or raises the next of `failures` (None: takes it)."""

    label = "fake"

    def __init__(self, failures: Sequence[Exception | None] = ()) -> None:
        self.failures = list(failures)
        self.taken: list[Notification] = []
        self.attempts: list[tuple[str, int]] = []

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        self.attempts.append((notification.id, notification.attempt))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.taken.append(notification)


class Bench:
    """One worker, its outbox and a clock."""

    def __init__(self, path: str, failures: Sequence[Exception | None] = ()) -> None:
        self.now_ms = 1_700_000_000_000
        self.target = FakeTarget(failures)
        self.outbox = Outbox(path)
        self.outbox.create()
        self.path = path
        # Without jitter, so that waits are known: 1, 2, 4, ... seconds.
        backoff = Backoff(base_seconds=1.0, cap_seconds=60.0, draw=lambda: 1.0)
        options = SendOptions(backoff, clock=lambda: self.now_ms)
        one = Integration(KEY, "ops", "fake", self.target)
        self.worker = Worker(one, path, options)

    def add(self, *alerts: Any, resolved: bool = False) -> None:
        """Each alert a message of its own."""
        with sqlite3.connect(self.path) as connection:
            for alert in alerts:
                labels = alert.labels.to_dict()
                name = f"{labels['alertname']} {'over' if resolved else 'on'}"
                message = Message(
                    name, "ops", KEY, str(alert.labels), labels, (alert,), "first notification"
                )
                add(connection, message, self.now_ms)
        connection.close()

    def step(self) -> float:
        return self.worker.step(self.outbox)

    def run(self) -> None:
        """Step, and move the clock to whenever there is something to do, until all is done."""
        for _ in range(10_000):
            seconds = self.step()
            if seconds == IDLE_SECONDS and not self.outbox.entries("pending"):
                return
            self.now_ms += round(seconds * 1000)
        raise AssertionError("the outbox never empties")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def test_waits_double_while_the_receiver_is_down(path: str, support: Any) -> None:
    down = SendError("connection", "refused")
    bench = Bench(path, [down, down, down])
    bench.add(support.firing())
    waits = []
    for _ in range(3):
        assert bench.step() == 0
        waits.append(bench.step())
        bench.now_ms += round(waits[-1] * 1000)
    assert waits == [1.0, 2.0, 4.0]
    assert bench.step() == 0
    assert [attempt for _, attempt in bench.target.attempts] == [1, 2, 3, 4]
    assert len({identity for identity, _ in bench.target.attempts}) == 1


def test_a_dead_receiver_is_asked_once_a_wait_however_many_rows_wait(
    path: str, support: Any
) -> None:
    bench = Bench(path, [SendError("timeout", "")] * 3)
    bench.add(*(support.firing(f"A{number}") for number in range(20)))
    bench.step()
    assert bench.step() == 1.0
    bench.now_ms += 1000
    bench.step()
    assert bench.step() == 2.0
    assert len(bench.target.attempts) == 2
    bench.run()
    assert len(bench.target.taken) == 20


def test_retry_after_is_obeyed(path: str, support: Any) -> None:
    bench = Bench(path, [SendError("rate_limited", "", retry_after_seconds=30)])
    bench.add(support.firing(), support.firing("Other"))
    bench.step()
    assert bench.step() == 30.0
    bench.run()
    assert len(bench.target.taken) == 2


def test_a_clock_that_is_set_back_stops_nothing(path: str, support: Any) -> None:
    bench = Bench(path, [SendError("timeout", "")])
    bench.add(support.firing())
    bench.step()
    bench.now_ms -= 30 * 86_400_000
    assert bench.step() == 0
    assert len(bench.target.taken) == 1


def test_a_fault_in_a_receiver_is_a_passing_failure_without_its_text(
    path: str, support: Any
) -> None:
    bench = Bench(path, [RuntimeError("s3cret")])
    bench.add(support.firing())
    bench.step()
    (entry,) = bench.outbox.entries("pending")
    assert (entry.reason, entry.detail) == ("internal", "internal error: RuntimeError")
    bench.run()
    assert len(bench.target.taken) == 1


def test_the_jitter_is_full() -> None:
    assert Backoff(base_seconds=1.0, cap_seconds=8.0, draw=lambda: 0.0).delay_ms(5) == 0
    assert Backoff(base_seconds=1.0, cap_seconds=8.0, draw=lambda: 0.5).delay_ms(3) == 2000
    assert Backoff(base_seconds=1.0, cap_seconds=8.0, draw=lambda: 1.0).delay_ms(10_000) == 8000


OUTCOMES = st.lists(
    st.sampled_from([None, None, "timeout", "server_error", "rate_limited"]), max_size=12
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(OUTCOMES, st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=8))
def test_whatever_fails_on_the_way_each_alert_is_told_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    support: Any,
    outcomes: list[str | None],
    events: list[tuple[int, bool]],
) -> None:
    failures = [None if one is None else SendError(one, "") for one in outcomes]
    bench = Bench(str(tmp_path_factory.mktemp("worker") / "state.db"), failures)
    expected: dict[str, list[str]] = {}
    for number, ends in events:
        name = f"Alert{number}"
        told = expected.setdefault(name, [])
        alert = support.firing(name)
        if ends and told == ["firing"]:
            bench.add(support.resolved(alert), resolved=True)
            told.append("resolved")
        elif ends:
            pass  # what nobody heard of has no end to tell
        else:
            bench.add(alert)
            if not told:
                told.append("firing")
        bench.step()
    bench.run()
    heard: dict[str, list[str]] = {name: [] for name in expected}
    for notification in bench.target.taken:
        heard[notification.group_labels["alertname"]].append(notification.status)
    assert heard == expected
    bench.outbox.close()


def test_what_was_delivered_is_forgotten_in_time(path: str, support: Any) -> None:
    bench = Bench(path)
    bench.add(support.firing("Over"), support.firing("Lasting"))
    bench.run()
    bench.outbox.prune(bench.now_ms + KEPT_MS)
    assert len(bench.outbox.entries("delivered")) == 2
    bench.outbox.prune(bench.now_ms + KEPT_MS + 1)
    assert bench.outbox.entries("delivered") == []


def test_a_message_that_is_given_up_leaves_word_of_who_was_not_told(
    path: str, support: Any
) -> None:
    bench = Bench(path, [SendError("http_404", "", permanent=True)])
    heard: list[int] = []
    bench.worker.on_refused = lambda: heard.append(1)
    alert = support.firing()
    bench.add(alert)
    bench.step()
    with sqlite3.connect(path) as connection:
        (one,) = refusals(connection)
    assert (one.group_key, one.integration) == (str(alert.labels), KEY)
    assert one.firing == one.unheard == {fingerprint(alert.labels)}
    assert heard == [1]


def put(
    bench: Bench,
    name: str,
    *alerts: Alert,
    retold: Sequence[Alert] = (),
) -> None:
    """A message of a group of all these alerts."""
    again = frozenset(fingerprint(alert.labels) for alert in retold)
    message = Message(name, "ops", KEY, "{}:{}", {}, alerts, "new alerts added", again)
    with sqlite3.connect(bench.path) as connection:
        add(connection, message, bench.now_ms)


def refused_now(bench: Bench) -> list[Refusal]:
    with sqlite3.connect(bench.path) as connection:
        return refusals(connection)


def test_a_message_that_was_under_way_when_the_process_died_says_that_it_may_be_a_repeat(
    path: str, support: Any
) -> None:
    bench = Bench(path, [KeyboardInterrupt()])  # type: ignore[list-item]
    bench.add(support.firing())
    with pytest.raises(KeyboardInterrupt):
        bench.step()
    bench.outbox.close()
    after = Bench(path)
    after.run()
    (again,) = after.target.taken
    assert again.possible_repeat
    assert again.attempt == 2


def test_a_database_that_takes_no_mark_keeps_nobody_from_hearing(
    path: str, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(path)
    bench.add(support.firing())

    def full(entry: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(bench.outbox, "attempt", full)
    bench.run()
    assert len(bench.target.taken) == 1


def test_a_repeat_that_is_given_up_does_not_lose_the_end_of_what_was_told(
    path: str, support: Any
) -> None:
    bench = Bench(path, [None, SendError("http_413", "", permanent=True)])
    old, new = support.firing("Old"), support.firing("New")
    put(bench, "first", old)
    put(bench, "second", old, new, retold=[old])
    bench.run()
    (one,) = refused_now(bench)
    assert one.firing == {fingerprint(old.labels), fingerprint(new.labels)}
    assert one.unheard == {fingerprint(new.labels)}


def test_what_a_later_message_tells_is_not_taken_for_unheard_and_its_end_is_sent(
    path: str, support: Any
) -> None:
    bench = Bench(path, [SendError("http_400", "", permanent=True)])
    one, other = support.firing("One"), support.firing("Other")
    put(bench, "first", one)
    put(bench, "second", one, other, retold=[one])
    put(bench, "end", support.resolved(one))
    bench.run()
    assert [len(message.alerts) for message in bench.target.taken] == [2, 1]
    (refusal,) = refused_now(bench)
    assert refusal.unheard == refusal.firing == set()


def test_a_row_that_cannot_be_read_is_given_up_and_holds_up_nobody(path: str, support: Any) -> None:
    bench = Bench(path)
    bench.add(support.firing("Damaged"), support.firing("Sound"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE notify_message SET alerts = '[{' WHERE id = 'Damaged on'")
    bench.run()
    assert [each.id for each in bench.target.taken] == ["Sound on"]
    (dead,) = bench.outbox.entries("failed")
    assert (dead.id, dead.reason) == ("Damaged on", "unreadable")
    assert "JSONDecodeError" in dead.detail


def test_the_thread_survives_a_fault(
    path: str, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifiers.turns.FAULT_RETRY_SECONDS", 0.001)
    bench = Bench(path)
    bench.add(support.firing())
    failures = [ZeroDivisionError(), KeyError()]

    def clock() -> int:
        if failures:
            raise failures.pop()
        return bench.now_ms

    one = Integration(KEY, "ops", "fake", bench.target)
    worker = Worker(one, path, SendOptions(clock=clock))
    worker.start()
    while not bench.target.taken:
        pass
    worker.ask_to_stop()
    assert worker.join(60)
