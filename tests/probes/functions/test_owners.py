"""Whose a hit was, on a staged /proc."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from engine.readings import Process
from probes.functions.owners import Owners
from probes.libraries.maps import identify

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000


class Proc:
    """A /proc with processes that start and end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, pid: int, seconds: float, state: str = "S") -> Process:
        ticks = int(seconds * 100)
        (self.folder / f"{pid}/task/{pid}").mkdir(parents=True, exist_ok=True)
        fields = [state, *["0"] * 18, str(ticks), *["0"] * 20]
        (self.folder / f"{pid}/stat").write_text(f"{pid} (job) {' '.join(fields)}\n")
        return Process(pid, ticks)

    def end(self, pid: int) -> None:
        (self.folder / f"{pid}/stat").unlink()
        (self.folder / f"{pid}/task/{pid}").rmdir()


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: 0)  # never asleep
    return Proc(tmp_path)


def test_a_hit_belongs_to_the_process_that_had_started_by_then(proc: Proc) -> None:
    owners = Owners(proc.folder)
    first = proc.start(7, 10)
    owners.join(first)
    proc.end(7)
    second = proc.start(7, 20)
    assert owners.at(7, 15 * SECOND) == first
    assert owners.at(7, 25 * SECOND) == second
    assert owners.at(7, 5 * SECOND) is None


def test_a_process_that_ended_is_known_for_one_more_look(proc: Proc) -> None:
    owners = Owners(proc.folder)
    process = proc.start(7, 10)
    owners.join(process)
    proc.end(7)
    owners.leave(process)
    assert owners.at(7, 11 * SECOND) == process
    owners.forget()
    owners.forget()
    assert owners.at(7, 11 * SECOND) is None


def test_a_process_that_nobody_watches_is_found_to_have_ended(proc: Proc) -> None:
    owners = Owners(proc.folder)
    process = proc.start(7, 10)
    assert owners.at(7, 11 * SECOND) == process
    proc.end(7)
    owners.forget()
    assert owners.at(7, 11 * SECOND) == process
    owners.forget()
    assert owners.at(7, 11 * SECOND) is None


def test_proc_is_asked_once_for_all_hits_that_were_before(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(pid: int, folder: Path) -> Process | None:
        asked.append(pid)
        return identify(pid, folder)

    monkeypatch.setattr("probes.functions.owners.identify", counted)
    owners = Owners(proc.folder)
    process = proc.start(7, 10)
    assert [owners.at(7, moment * SECOND) for moment in (11, 12, 13)] == [process] * 3
    assert asked == [7]
    owners.at(7, time.monotonic_ns() + SECOND)
    assert asked == [7, 7]


def test_a_mark_lives_while_the_kernel_has_it_and_the_process_runs(proc: Proc) -> None:
    owners = Owners(proc.folder)
    proc.start(7, 10)
    owners.refresh({7: 12 * SECOND})
    assert owners.lives(7, 12 * SECOND)
    assert not owners.lives(7, 11 * SECOND)
    assert owners.runs(7, 7)
    proc.end(7)
    owners.refresh({7: 12 * SECOND})
    assert not owners.lives(7, 12 * SECOND)
    assert not owners.runs(7, 7)


def test_a_process_that_waits_for_its_parent_runs_no_more(proc: Proc) -> None:
    owners = Owners(proc.folder)
    proc.start(7, 10)
    assert owners.runs(7, 7)
    proc.start(7, 10, state="Z")
    owners.refresh({7: 12 * SECOND})
    assert not owners.runs(7, 7)
    assert not owners.lives(7, 12 * SECOND)


def test_a_process_that_is_told_of_before_it_ends_is_known_until_it_has(proc: Proc) -> None:
    """Its memory is let go of first, so that it maps no library while its threads still end."""
    owners = Owners(proc.folder)
    process = proc.start(7, 10)
    owners.join(process)
    owners.leave(process)
    for _ in range(3):
        owners.forget()
    proc.end(7)
    assert owners.at(7, 11 * SECOND) == process
    owners.forget()
    assert owners.at(7, 11 * SECOND) == process
    owners.forget()
    assert owners.at(7, 11 * SECOND) is None


def test_a_process_that_nobody_ever_saw_has_no_owner(proc: Proc) -> None:
    assert Owners(proc.folder).of(9, 5 * SECOND) is None
