"""A start where state.db cannot be read any more: what fires begins anew, and may be a repeat."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.rulegroup.state import GroupState
from engine.state.database import StateDb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.alerts.alert import Alert


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(40_000))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def of_a_newer_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alert_schema SET version = 99")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    beside_a_recording(path)
    path.write_bytes(b"")


def deleted(path: Path) -> None:
    beside_a_recording(path)
    path.unlink()


def beside_a_recording(path: Path) -> None:
    (path.parent / "recording").mkdir()
    (path.parent / "recording" / "manifest.json").write_text("{}")


LOSSES = [random_bytes, truncated, of_a_newer_version, a_folder, empty, deleted]


class Node:
    """Agents on one state folder, one after another, that tell each alert by itself."""

    def __init__(self, path: Path, hook: Any, make_agent: Any, support: Any) -> None:
        self.path, self.hook, self.support = path, hook, support
        self._make_agent = make_agent

    def live(self, *alerts: Alert) -> tuple[str, ...]:
        """An agent that tells of these, in order, and ends; its notices at the start."""
        state = StateDb.open(self.path)
        config = self.support.configured(ops=[("webhook", {"url": self.hook.url})])
        agent = self._make_agent(config, state=state.file)
        for alert in alerts:
            before = len(self.hook.received)
            group = GroupState("r.yaml", "g", self.support.unix_ms())
            assert state.commit([group], [alert], agent.delivery.enqueue)
            agent.delivery.wake()
            self.hook.wait_for(before + 1)
        agent.delivery.stop(self.support.PATIENCE)
        state.close()
        return state.notices

    def begins(self, name: str) -> Alert:
        """By rules of the next agent: a minute from now it has started."""
        now_ms = self.support.unix_ms() + 60_000
        fires: Alert = self.support.firing(name)
        return replace(fires, active_at_ms=now_ms, fired_at_ms=now_ms)

    @property
    def marked(self) -> list[bool]:
        """Of each message, whether it says that it may be a repeat."""
        return ["X-Stallwatch-Repeat" in headers for headers, _ in self.hook.received]


@pytest.fixture
def node(hook: Any, make_agent: Any, support: Any, tmp_path: Path) -> Node:
    return Node(tmp_path / "state.db", hook, make_agent, support)


@pytest.mark.parametrize("lose", LOSSES)
def test_what_begins_anew_after_a_start_on_a_lost_state_is_told_as_a_possible_repeat(
    node: Node, lose: Callable[[Path], None]
) -> None:
    node.live(node.begins("Slow"))
    lose(node.path)
    (notice,) = node.live(node.begins("Slow"))
    assert notice.startswith(f"{node.path}: ")
    assert node.marked == [False, True]


def test_a_group_that_was_told_since_repeats_nothing(node: Node) -> None:
    node.live(node.begins("Slow"))
    random_bytes(node.path)
    slow = node.begins("Slow")
    node.live(slow, node.support.resolved(slow), node.begins("Slow"))
    assert node.marked == [False, True, False, False]


def test_the_next_start_still_knows_that_the_state_was_lost(node: Node) -> None:
    node.live(node.begins("Slow"))
    random_bytes(node.path)
    node.live()
    assert node.live(node.begins("Slow")) == ()
    assert node.marked == [False, True]


def test_what_begins_when_a_lost_entry_would_be_forgotten_anyway_is_no_repeat(node: Node) -> None:
    node.live(node.begins("Slow"))
    random_bytes(node.path)
    years_later = node.support.unix_ms() + 10**11
    node.live(replace(node.begins("Slow"), active_at_ms=years_later, fired_at_ms=years_later))
    assert node.marked == [False, False]


def test_a_first_start_doubts_nothing(node: Node) -> None:
    assert node.live(node.begins("Slow")) == ()
    assert node.live(node.begins("Fast")) == ()
    assert node.marked == [False, False]
