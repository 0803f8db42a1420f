"""A disk that fails: nothing is lost, the threads live, and the log says so once."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.state.database import StateDb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.alerts.alert import Alert


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Sixteen megabytes."""
    if os.geteuid() != 0:
        pytest.skip("to mount a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no disk can be mounted: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


def commit(agent: Any, state: StateDb, *alerts: Alert) -> bool:
    taken = state.commit([], alerts, agent.delivery.enqueue)
    agent.delivery.wake()
    return taken


def heard(hook: Any) -> list[tuple[str, str]]:
    return [
        (one["labels"]["alertname"], one["status"])
        for _, body in list(hook.received)
        for one in json.loads(body)["alerts"]
    ]


def await_heard(hook: Any, expected: set[tuple[str, str]], support: Any) -> None:
    for _ in range(int(support.PATIENCE / 0.02)):
        if expected <= set(heard(hook)):
            return
        time.sleep(0.02)
    raise AssertionError(expected - set(heard(hook)))


def names(count: int) -> list[str]:
    return [f"Alert{number}" for number in range(count)]


def is_no_flood(caplog: pytest.LogCaptureFixture, threads: int = 3) -> bool:
    """A beginning and an end each, for the few errors that a disk finds."""
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    return 0 < len(said) <= 6 * threads and len(set(said)) >= len(said) // 3


def test_a_full_disk_delays_and_loses_nothing(
    hook: Any, make_agent: Any, support: Any, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateDb.open(small_disk / "state.db")
    agent = make_agent(
        support.configured(ops=[("webhook", {"url": hook.url})]), name="disk/state.db"
    )
    alerts = [
        replace(support.firing(name), annotations={"summary": "x" * 20_000}) for name in names(12)
    ]
    assert commit(agent, state, alerts[0])
    await_heard(hook, {("Alert0", "firing")}, support)
    filler = fill(small_disk)
    taken = [commit(agent, state, alert) for alert in alerts[1:]]
    assert not all(taken)
    for _ in range(20):
        commit(agent, state)
        time.sleep(0.05)
    assert is_no_flood(caplog)
    filler.unlink()
    assert commit(agent, state, support.resolved(alerts[0]))
    await_heard(hook, {(name, "firing") for name in names(12)}, support)
    await_heard(hook, {("Alert0", "resolved")}, support)
    assert commit(agent, state, *map(support.resolved, alerts[1:]))
    await_heard(hook, {(name, "resolved") for name in names(12)}, support)
    assert len(hook.ids()) == len(set(hook.ids())) == 24
    assert is_no_flood(caplog)
    state.close()


def test_a_database_that_is_locked_for_ten_seconds_delays_and_loses_nothing(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateDb.open(tmp_path / "state.db")
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    assert commit(agent, state, support.firing("Before"))
    agent.settle("delivered", 1)
    locker = sqlite3.connect(agent.path, check_same_thread=False, isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    release = threading.Timer(10, locker.execute, ["COMMIT"])
    release.start()
    assert not commit(agent, state, support.firing("Meanwhile"))
    release.join()
    locker.close()
    assert commit(agent, state, support.resolved(support.firing("Before")))
    expected = {("Before", "firing"), ("Meanwhile", "firing"), ("Before", "resolved")}
    await_heard(hook, expected, support)
    assert len(hook.ids()) == len(set(hook.ids())) == 3
    assert is_no_flood(caplog)
    state.close()


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
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), name=state.path)
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
