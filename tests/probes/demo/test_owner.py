"""What a killed demo left is known by its name."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from probes.demo.owner import is_stale, own_name, scratch_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _name_of_a_dead_process() -> str:
    code = "from probes.demo.owner import own_name; print(own_name('state'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_running_demos_things_are_not_stale() -> None:
    assert not is_stale(own_name("a"))


def test_a_dead_demos_things_are_stale() -> None:
    assert is_stale(_name_of_a_dead_process())


def test_a_reused_pid_does_not_keep_a_dead_demos_things() -> None:
    assert is_stale(f"stallwatch-demo-{os.getpid()}-1-a")


def test_names_of_others_are_never_stale() -> None:
    names = ("blue", "stallwatch-demo", "stallwatch-demo-notes", "my-stallwatch-demo-1-1-a")
    assert [is_stale(name) for name in names] == [False] * 4


def test_the_folder_goes_and_takes_the_ones_of_killed_demos_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / _name_of_a_dead_process()).mkdir()
    target = tmp_path / "precious"
    target.mkdir()
    (tmp_path / "stallwatch-demo-1-1-link").symlink_to(target)
    with scratch_folder() as folder:
        assert {path.name for path in tmp_path.iterdir()} == {
            folder.name,
            "precious",
            "stallwatch-demo-1-1-link",
        }
    assert not folder.exists()
