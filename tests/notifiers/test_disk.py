"""A disk that fails: alerts go out, nothing is lost, and the log says so once."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.state.database import StateDb
from engine.state.shelter import drop_shelter, shelter_of
from notifiers.outbox import Outbox
from tests.notifiers.disks import abort, ext4_at, fill, small_disk_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.alerts.alert import Alert


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk") as folder:
        yield folder


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Path]:
    with ext4_at(tmp_path / "ext4") as folder:
        yield folder


def commit(agent: Any, state: StateDb, *alerts: Alert) -> bool:
    taken = state.commit([], alerts, agent.delivery.enqueue)
    agent.delivery.wake()
    return taken


def await_heard(hook: Any, expected: set[tuple[str, str]], support: Any) -> None:
    """Wait until (alert, status) of all were told; each message is read once."""
    missing, read = set(expected), 0
    for _ in range(int(support.PATIENCE / 0.02)):
        news = hook.received[read:]
        read += len(news)
        for _, body in news:
            alerts = json.loads(body)["alerts"]
            missing -= {(one["labels"]["alertname"], one["status"]) for one in alerts}
        if not missing:
            return
        time.sleep(0.02)
    raise AssertionError(missing)


def come_back(state: StateDb) -> None:
    """Commit until the disk has it again; the disk is asked now and then only."""
    for _ in range(600):
        state.commit([], [])
        if state.up:
            return
        time.sleep(0.1)
    raise AssertionError(state.file.reason)


def delivered(path: Path) -> list[str]:
    """Ids of messages that the file knows as taken."""
    outbox = Outbox(str(path))
    try:
        return [entry.id for entry in outbox.entries("delivered")]
    finally:
        outbox.close()


def names(count: int) -> list[str]:
    return [f"Alert{number}" for number in range(count)]


def is_no_flood(caplog: pytest.LogCaptureFixture, threads: int = 3) -> bool:
    """A beginning and an end each, for the few errors that a disk finds."""
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    return 0 < len(said) <= 6 * threads and len(set(said)) >= len(said) // 3


def test_on_a_full_disk_alerts_go_out_and_what_was_told_is_on_the_disk_afterwards(
    hook: Any, make_agent: Any, support: Any, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateDb.open(small_disk / "state.db")
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=state.file)
    alerts = [
        replace(support.firing(name), annotations={"summary": "x" * 20_000}) for name in names(12)
    ]
    assert commit(agent, state, alerts[0])
    await_heard(hook, {("Alert0", "firing")}, support)
    filler = fill(small_disk)
    assert all(commit(agent, state, alert) for alert in alerts[1:])
    await_heard(hook, {(name, "firing") for name in names(12)}, support)
    assert not state.up
    assert "full" in state.file.reason
    filler.unlink()
    come_back(state)
    assert commit(agent, state, *map(support.resolved, alerts))
    await_heard(hook, {(name, "resolved") for name in names(12)}, support)
    agent.delivery.stop(support.PATIENCE)
    assert len(hook.ids()) == len(set(hook.ids())) == 24
    assert is_no_flood(caplog)
    assert len(delivered(small_disk / "state.db")) == 24
    state.close()


def test_a_disk_that_turns_read_only_keeps_nobody_from_hearing_and_a_kill_loses_nothing(
    hook: Any, make_agent: Any, support: Any, ext4: Path
) -> None:
    path = ext4 / "state.db"
    state = StateDb.open(path)
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=state.file)
    assert commit(agent, state, support.firing("Before"))
    agent.settle("delivered", 1)
    abort(ext4)
    assert commit(agent, state, support.firing("Meanwhile"))
    assert commit(agent, state, support.resolved(support.firing("Before")))
    expected = {("Before", "firing"), ("Meanwhile", "firing"), ("Before", "resolved")}
    await_heard(hook, expected, support)
    assert not state.up
    agent.delivery.stop(support.PATIENCE)
    # As after kill -9: nothing was closed, and the next agent finds what is in memory.
    again = StateDb.open(path)
    assert not again.durable
    later = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=again.file)
    assert commit(later, again, support.resolved(support.firing("Meanwhile")))
    await_heard(hook, {("Meanwhile", "resolved")}, support)
    assert len(hook.ids()) == len(set(hook.ids())) == 4
    later.delivery.stop(support.PATIENCE)
    drop_shelter(shelter_of(path))


def test_a_lock_that_another_process_holds_delays_no_alert(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateDb.open(tmp_path / "state.db")
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=state.file)
    assert commit(agent, state, support.firing("Before"))
    agent.settle("delivered", 1)
    locker = sqlite3.connect(agent.path, isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    assert commit(agent, state, support.firing("Meanwhile"))
    # It is told while the lock is held.
    await_heard(hook, {("Meanwhile", "firing")}, support)
    locker.execute("COMMIT")
    locker.close()
    come_back(state)
    assert commit(agent, state, support.resolved(support.firing("Before")))
    await_heard(hook, {("Before", "resolved")}, support)
    assert len(hook.ids()) == len(set(hook.ids())) == 3
    assert is_no_flood(caplog)
    state.close()


@pytest.mark.parametrize("gone", ["state.db", "state.db-wal", "the folder", "another in its place"])
def test_a_file_that_is_deleted_is_there_again_with_all_that_it_held(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path, gone: str
) -> None:
    path = tmp_path / "own" / "state.db"
    state = StateDb.open(path)
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=state.file)
    assert commit(agent, state, support.firing("Before"))
    agent.settle("delivered", 1)
    if gone == "the folder":
        shutil.rmtree(path.parent)
    else:
        path.with_name("state.db-wal" if gone == "state.db-wal" else "state.db").unlink()
    if gone == "another in its place":
        path.write_text("a file of somebody else's")
    ups = [state.up]
    assert commit(agent, state, support.firing("After"), support.resolved(support.firing("Before")))
    await_heard(hook, {("After", "firing"), ("Before", "resolved")}, support)
    ups.append(state.up)
    assert ups == [False, True]
    assert state.file.mended["deleted"] == 1
    agent.delivery.stop(support.PATIENCE)
    state.close()
    assert len(delivered(path)) == len(set(hook.ids())) == len(hook.ids()) == 3
    if gone == "another in its place":
        (aside,) = path.parent.glob("state.db.replaced-*Z")
        assert aside.read_text() == "a file of somebody else's"


@pytest.mark.parametrize("damage", ["corrupt", "read-only"])
def test_a_file_that_cannot_be_used_at_start_keeps_nobody_from_hearing(
    hook: Any, make_agent: Any, support: Any, small_disk: Path, damage: str
) -> None:
    path = small_disk / "state.db"
    if damage == "corrupt":
        path.write_bytes(b"no database" * 1000)
    else:
        StateDb.open(path).close()
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    state = StateDb.open(path)
    assert len(state.notices) == 1
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), state=state.file)
    assert commit(agent, state, support.firing())
    agent.settle("delivered", 1)
    assert commit(agent, state, support.resolved(support.firing()))
    agent.settle("delivered", 2)
    agent.delivery.stop(10)
    state.close()


def test_a_thousand_alerts_of_one_evaluation_arrive_and_end(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path
) -> None:
    state = StateDb.open(tmp_path / "state.db")
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    alerts = [support.firing(name) for name in names(1000)]
    assert commit(agent, state, *alerts)
    await_heard(hook, {(name, "firing") for name in names(1000)}, support)
    assert commit(agent, state, *map(support.resolved, alerts))
    await_heard(hook, {(name, "resolved") for name in names(1000)}, support)
    assert len(hook.ids()) == len(set(hook.ids())) == 2000
    state.close()
