"""Silences in state.db: changes, other processes, kill -9, retention, limits."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from notifiers.silences.silence import SilenceError
from notifiers.silences.store import RETENTION_MS, Limits, Silences, UnknownSilenceError

if TYPE_CHECKING:
    from pathlib import Path

ALERT = {"alertname": "Slow", "rank": "3"}


def test_an_active_silence_holds_back_what_it_matches(store: Silences, support: Any) -> None:
    made = store.add(support.silence(ends=1000), support.now_ms)
    assert store.silencing(ALERT, support.now_ms) == (made.id,)
    assert store.silencing({"alertname": "Fast"}, support.now_ms) == ()
    assert store.silencing(ALERT, support.now_ms + 1000) == ()


def test_all_of_a_silence_comes_back(tmp_path: Path, support: Any) -> None:
    path = str(tmp_path / "state.db")
    texts = {"created_by": "jane", "comment": "Zoë's host", "annotations": {"ticket": "OPS-7"}}
    wanted = support.silence('{a="b", "käse" =~ "x|y", c != "", d !~ "z.*"}', **texts)
    made = Silences(path).add(wanted, support.now_ms)
    assert Silences(path).get(made.id, support.now_ms) == made
    assert made.matchers == wanted.matchers


def test_a_change_keeps_the_id_or_ends_the_old_silence(store: Silences, support: Any) -> None:
    first = store.add(support.silence(), support.now_ms)
    longer = support.silence(identity=first.id, ends=2 * support.hour_ms)
    assert store.add(longer, support.now_ms).id == first.id
    other = store.add(support.silence('rank="3"', identity=first.id), support.now_ms)
    assert other.id != first.id
    states = {one.id: one.state(support.now_ms) for one in store.listed(support.now_ms)}
    assert states == {first.id: "expired", other.id: "active"}
    assert store.silencing(ALERT, support.now_ms) == (other.id,)


def test_an_expired_silence_is_seen_for_five_days_and_then_forgotten(
    store: Silences, support: Any
) -> None:
    made = store.add(support.silence(), support.now_ms)
    ended = store.expire(made.id, support.now_ms)
    assert ended.state(support.now_ms) == "expired"
    assert store.expire(made.id, support.now_ms + 5) == ended
    kept_until = support.now_ms + RETENTION_MS
    assert store.listed(kept_until - 1) == [ended]
    assert store.listed(kept_until) == []
    with pytest.raises(UnknownSilenceError):
        store.expire(made.id, kept_until)
    store.add(support.silence(ends=RETENTION_MS + 1000), kept_until)
    assert made.id not in {one.id for one in store.current().silences}


def test_an_unknown_id_is_said_to_be_unknown(store: Silences, support: Any) -> None:
    with pytest.raises(UnknownSilenceError, match="silence not found"):
        store.get("no", support.now_ms)
    with pytest.raises(UnknownSilenceError):
        store.expire("no", support.now_ms)
    with pytest.raises(UnknownSilenceError):
        store.add(support.silence(identity="no"), support.now_ms)
    assert store.listed(support.now_ms) == []


def test_a_change_by_another_process_is_seen_at_once(tmp_path: Path, support: Any) -> None:
    path = str(tmp_path / "state.db")
    agent, command = Silences(path), Silences(path)
    assert agent.silencing(ALERT, support.now_ms) == ()
    made = command.add(support.silence(), support.now_ms)
    assert agent.silencing(ALERT, support.now_ms) == (made.id,)
    command.expire(made.id, support.now_ms)
    assert agent.silencing(ALERT, support.now_ms) == ()


def test_other_writes_to_the_database_leave_what_is_remembered(
    store: Silences, tmp_path: Path, support: Any
) -> None:
    store.add(support.silence(), support.now_ms)
    before = store.current()
    connection = sqlite3.connect(tmp_path / "state.db")
    with connection:
        connection.execute("CREATE TABLE other (a)")
    connection.close()
    assert store.current() is before


ADD_FOR_EVER = """
import sys, time
from engine.alerts.matchers import parse_matchers
from notifiers.silences.silence import Silence
from notifiers.silences.store import Silences
store = Silences(sys.argv[1])
while True:
    one = Silence("", parse_matchers("a=b"), 0, 10**12)
    print(store.add(one, 1000).id, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    command = [sys.executable, "-c", ADD_FOR_EVER, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read().split()
    kept = {one.id for one in Silences(path).listed(2000)}
    assert set(said) <= kept
    assert len(kept) - len(said) <= 1


def test_threads_that_add_and_ask_at_once_lose_nothing(store: Silences, support: Any) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                store.add(support.silence(f'rank="{number}-{turn}"'), support.now_ms)
                store.silencing(ALERT, support.now_ms)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(store.listed(support.now_ms)) == 20


def test_there_may_be_only_so_many_and_only_so_large(tmp_path: Path, support: Any) -> None:
    store = Silences(str(tmp_path / "state.db"), limits=Limits(2, 1000))
    store.add(support.silence(), support.now_ms)
    second = store.add(support.silence(), support.now_ms)
    with pytest.raises(SilenceError, match=r"maximum number of silences: 2 \(limit: 2\)"):
        store.add(support.silence(), support.now_ms)
    large = support.silence(identity=second.id, comment="x" * 1000)
    with pytest.raises(SilenceError, match=r"exceeded maximum size: \d+ bytes \(limit: 1000"):
        store.add(large, support.now_ms)
    assert store.add(support.silence(identity=second.id), support.now_ms).id == second.id
