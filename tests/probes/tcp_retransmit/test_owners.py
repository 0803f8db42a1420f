"""A pid that was used again: which of its processes a user of a socket was."""

from __future__ import annotations

import time

import pytest

from engine.aggregate.procfs import CLOCK_TICKS_PER_SECOND
from engine.readings import Process
from probes.tcp_retransmit import owners
from probes.tcp_retransmit.flow import User
from probes.tcp_retransmit.owners import GRAVE_FLUSHES, Owner, Owners

TICK_NS = 1_000_000_000 // CLOCK_TICKS_PER_SECOND
FIRST, SECOND = Owner(Process(7, 100), "a", 1), Owner(Process(7, 900), "b", 1)


@pytest.fixture
def proc(monkeypatch: pytest.MonkeyPatch) -> dict[int, Owner]:
    """Who runs, by pid."""
    running: dict[int, Owner] = {}
    monkeypatch.setattr(owners, "read_owner", running.get)
    monkeypatch.setattr(Owner, "runs", lambda self: running.get(self.process.pid) == self)
    return running


def _at(ticks: int) -> User:
    asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return User(7, ticks * TICK_NS - asleep + 1_000_000)


def test_of_two_processes_with_one_pid_the_one_that_ran_then_is_meant(
    proc: dict[int, Owner],
) -> None:
    known = Owners()
    proc[7] = FIRST
    assert known.meet(7) == (FIRST, None)
    proc[7] = SECOND
    assert known.meet(7) == (SECOND, FIRST)
    assert known.at(_at(150)) == FIRST
    assert known.at(_at(950)) == SECOND
    assert known.at(_at(50)) is None
    assert known.of(FIRST.process) == FIRST
    assert known.all() == [SECOND]


def test_a_dead_owner_is_remembered_for_some_flushes(proc: dict[int, Owner]) -> None:
    known = Owners()
    proc[7] = FIRST
    known.meet(7)
    del proc[7]
    assert known.remove_gone() == [FIRST]
    assert known.at(_at(150)) == FIRST
    for _ in range(GRAVE_FLUSHES + 1):
        assert known.remove_gone() == []
    assert known.at(_at(150)) is None
    assert known.of(FIRST.process) is None
