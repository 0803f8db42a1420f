"""Items computed in forks come as if one process had computed them all, whatever happens there."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.promql.forks import computed

if TYPE_CHECKING:
    from collections.abc import Callable


def _unreadable() -> None:
    raise MemoryError


class Unreadable:
    """Can be sent and not be read."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _unreadable, ()

    def __str__(self) -> str:
        return "here"


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread of an earlier evaluation may end meanwhile, and its children move to another.
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update((task / "children").read_text().split())
    return found


def left_since(before: set[str]) -> set[str]:
    """Children that there were not before and that do not end within half a minute."""
    deadline = time.monotonic() + 30
    while children() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    return children() - before


def test_items_come_in_order_whoever_computed_them() -> None:
    owners = [0, 1, 2, 1, 0, 0, 2, 1]
    found = list(computed(lambda index: (index, os.getpid()), owners))
    assert [index for index, _ in found] == list(range(8))
    processes = {
        owner: {found[i][1] for i, own in enumerate(owners) if own == owner} for owner in range(3)
    }
    assert processes[0] == {os.getpid()}
    assert len(set.union(*processes.values())) == 3


def test_arrays_come_back_to_the_bit_and_can_be_written_to() -> None:
    def one(index: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.array([np.uint64(0x7FF0000000000002), index], dtype=np.uint64).view(np.float64)

    for index, found in enumerate(computed(one, [0, 1, 1])):
        assert found.tobytes() == one(index).tobytes()
        found[0] = 1.0


def test_much_more_than_a_pipe_holds_waits_for_nobody() -> None:
    found = list(computed(lambda index: np.full(2_000_000, float(index)), [1, 1, 1, 0]))
    assert [one[-1] for one in found] == [0.0, 1.0, 2.0, 3.0]


def test_a_fork_waits_when_much_of_what_it_computed_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.promql.forks.MOST_WAITING_BYTES", 4_000_000)
    log = tmp_path / "computed"
    log.touch()

    def one(index: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        with log.open("a") as file:
            file.write("x")
        return np.full(250_000, float(index))

    for taken, found in enumerate(computed(one, [1] * 24)):
        assert found[-1] == taken
        time.sleep(0.02)
        # Two waiting, one more in the pipe and in the fork's hands each; and the one taken.
        assert log.stat().st_size <= taken + 6


def test_what_is_computed_ahead_of_a_slow_fork_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.promql.forks.MOST_AHEAD", 3)
    here, done = os.getpid(), []

    def one(index: int) -> int:
        if os.getpid() == here:
            done.append(index)
        else:
            time.sleep(0.1)
        return index

    found = computed(one, [1, *[0] * 9])
    assert next(found) == 0
    assert done == [1, 2, 3]
    assert list(found) == list(range(1, 10))


def test_an_error_is_raised_at_its_turn_with_the_items_before_it() -> None:
    def one(index: int) -> int:
        if index in {3, 5}:
            raise ValueError(f"item {index}")
        return index

    for owners in ([0, 1, 0, 1, 0, 1], [0, 1, 1, 0, 1, 0], [0] * 6, [1] * 6):
        found = computed(one, owners)
        assert [next(found), next(found), next(found)] == [0, 1, 2]
        with pytest.raises(ValueError, match="item 3"):
            next(found)


def test_what_a_killed_fork_owed_is_computed_here() -> None:
    here = os.getpid()

    def one(index: int) -> int:
        if os.getpid() != here and index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    assert list(computed(one, [0, 1, 0, 1, 0, 1])) == list(range(6))


def test_what_cannot_be_sent_is_computed_here() -> None:
    def one(index: int) -> Callable[[], int]:
        return lambda: index

    assert [found() for found in computed(one, [0, 1])] == [0, 1]


def test_what_there_is_no_process_or_thread_for_is_computed_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise refusal

    refusal: Exception = BlockingIOError("Resource temporarily unavailable")
    before = children()
    with monkeypatch.context() as patch:
        patch.setattr("os.fork", refused)
        assert list(computed(lambda index: index, [0, 1, 2, 0])) == [0, 1, 2, 3]
    refusal = RuntimeError("can't start new thread")
    monkeypatch.setattr("engine.promql.forks.Thread.start", refused)
    assert list(computed(lambda index: index, [0, 1, 2, 0])) == [0, 1, 2, 3]
    assert not left_since(before)


def test_what_cannot_be_taken_in_is_computed_here() -> None:
    assert [str(one) for one in computed(lambda _: Unreadable(), [0, 1, 1])] == ["here"] * 3


def test_forks_end_with_what_was_asked_of_them() -> None:
    before = children()
    with closing(computed(lambda index: time.sleep(60) if index else None, [0, 1, 1])) as found:
        next(found)
        assert children() - before
    assert not left_since(before)


def test_the_terminals_interrupt_ends_a_fork_without_a_word(
    capfd: pytest.CaptureFixture[str],
) -> None:
    here = os.getpid()

    def one(index: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        return index

    assert list(computed(one, [0, 1])) == [0, 1]
    assert capfd.readouterr().err == ""
