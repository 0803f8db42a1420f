from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from engine.state import StateLock, StateLockedError
from engine.state.shelter import shelter_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = """
import signal, sys
from pathlib import Path
from engine.state import StateLock
lock = StateLock(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


@contextmanager
def another_agent(disk: Path) -> Iterator[int]:
    """A process that has the state; its pid. It is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(disk)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)


def refused(disk: Path) -> str:
    with pytest.raises(StateLockedError) as error:
        StateLock(disk)
    return str(error.value)


def test_a_second_agent_is_refused_and_told_whose_the_state_is(tmp_path: Path) -> None:
    disk = tmp_path / "state" / "state.db"
    with another_agent(disk) as pid:
        assert refused(disk) == (
            f"{disk.parent}: another agent (pid {pid}) has its state here\n"
            "    hint: stop it, or start this one elsewhere (--state, state_dir in"
            " stallwatch.yaml)"
        )
    # It was killed: nothing is left to clean up.
    StateLock(disk).release()


def test_a_folder_that_is_deleted_under_an_agent_lets_no_second_one_in(tmp_path: Path) -> None:
    disk = tmp_path / "state" / "state.db"
    with another_agent(disk) as pid:
        shutil.rmtree(disk.parent)
        assert f"(pid {pid})" in refused(disk)


def test_a_folder_that_cannot_be_written_lets_no_second_one_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    disk = tmp_path / "file" / "state.db"
    with another_agent(disk) as pid:
        assert f"(pid {pid})" in refused(disk)


def test_another_path_to_the_folder_is_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "state")
    with another_agent(tmp_path / "state" / "state.db") as pid:
        assert f"(pid {pid})" in refused(tmp_path / "link" / "state.db")


def test_who_does_not_share_the_memory_is_kept_out_by_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "state.db"
    with another_agent(disk) as pid:
        (tmp_path / "other memory").mkdir()
        monkeypatch.setattr("engine.state.shelter.MEMORY", tmp_path / "other memory")
        assert f"(pid {pid})" in refused(disk)


def test_what_is_released_can_be_had_and_leaves_nothing_in_memory(tmp_path: Path) -> None:
    disk = tmp_path / "state.db"
    first = StateLock(disk)
    refused(disk)
    first.release()
    second = StateLock(disk)
    first.release()
    refused(disk)
    second.release()
    assert not list(shelter_of(disk).parent.glob(f"{shelter_of(disk).name}*"))


def test_a_child_process_that_ends_keeps_the_lock_where_it_is(tmp_path: Path) -> None:
    disk = tmp_path / "state.db"
    lock = StateLock(disk)
    child = os.fork()
    if not child:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    refused(disk)
    lock.release()


@pytest.mark.parametrize("planted", ["a folder", "a link"])
def test_what_somebody_put_in_its_place_is_left_alone(tmp_path: Path, planted: str) -> None:
    disk = tmp_path / "state.db"
    place = shelter_of(disk).with_name(f"{shelter_of(disk).name}.lock")
    mine = tmp_path / "mine"
    mine.write_text("17")
    if planted == "a folder":
        place.mkdir()
    else:
        place.symlink_to(mine)
    lock = StateLock(disk)
    refused(disk)
    lock.release()
    assert mine.read_text() == "17"
    assert place.is_dir() if planted == "a folder" else place.is_symlink()
    place.rmdir() if planted == "a folder" else place.unlink()
