"""A real agent whose disk fails: alerts go out, and one of them is that the disk fails."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.state.shelter import drop_shelter, left_in_memory, shelter_of
from rules.packs import shipped
from tests.notifiers.disks import abort, ext4_at, fill, overwrite, small_disk_at

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 240.0


@pytest.fixture
def troubled(make_agent: Any, hook: Any, tmp_path: Path) -> Iterator[Any]:
    """An agent that runs its own pack too, not started."""
    agent = make_agent(hook.url)
    settings = json.loads(agent.config.read_text())
    (own,) = [str(path) for path in shipped() if Path(path).name == "self.yaml"]
    settings["rule_files"].append(own)
    settings["flush_interval"] = "1s"
    agent.config.write_text(json.dumps(settings))
    yield agent
    agent.kill()
    drop_shelter(shelter_of(tmp_path / "state" / "state.db"))


def told(hook: Any) -> list[tuple[str, str]]:
    """(alert and its rank, status), as they came."""
    return [
        (one["labels"]["alertname"] + one["labels"].get("rank", ""), one["status"])
        for _, body in list(hook.received)
        for one in json.loads(body)["alerts"]
    ]


def await_told(hook: Any, *expected: tuple[str, str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not set(expected) <= set(told(hook)):
        assert time.monotonic() < deadline, told(hook)
        time.sleep(0.1)


def test_an_agent_on_a_full_disk_says_so_and_that_it_is_over(
    troubled: Any, hook: Any, tmp_path: Path
) -> None:
    with small_disk_at(tmp_path / "state") as disk:
        troubled.start()
        await_told(hook, ("Slow1", "firing"), ("Slow2", "firing"))
        filler = fill(disk)
        await_told(hook, ("StateNotOnDisk", "firing"))
        filler.unlink()
        await_told(hook, ("StateNotOnDisk", "resolved"))
        assert left_in_memory(disk / "state.db") is None
        troubled.kill()
    assert told(hook).count(("Slow1", "firing")) == 1


def test_an_agent_whose_disk_turns_read_only_says_so_and_a_kill_loses_nothing(
    troubled: Any, hook: Any, tmp_path: Path
) -> None:
    with ext4_at(tmp_path / "state") as disk:
        troubled.start()
        await_told(hook, ("Slow1", "firing"), ("Slow2", "firing"))
        abort(disk)
        await_told(hook, ("StateNotOnDisk", "firing"))
        troubled.kill()
        troubled.start()
        time.sleep(3)  # evaluations come and go
        troubled.kill()
    ids = hook.ids()
    assert len(ids) == len(set(ids))
    assert told(hook).count(("Slow1", "firing")) == 1
    assert told(hook).count(("StateNotOnDisk", "firing")) == 1


def test_an_agent_whose_state_is_damaged_says_so_and_goes_on(
    troubled: Any, hook: Any, tmp_path: Path
) -> None:
    path = tmp_path / "state" / "state.db"
    troubled.start()
    await_told(hook, ("Slow1", "firing"), ("Slow2", "firing"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint")
    overwrite(path, random.Random(1), 40)
    await_told(hook, ("StateMended", "firing"))
    assert list(path.parent.glob("state.db.corrupt-*Z"))
    assert left_in_memory(path) is None
