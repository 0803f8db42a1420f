"""Our own commands and version are read without importlib.metadata, and say the same as it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from typing import TYPE_CHECKING

from engine.cli import installed

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OTHER = "[console_scripts]\nx = y:z\n\n[stallwatch.commands]\nmore = other.more:MoreCommand\n"


def test_what_is_read_is_what_the_standard_library_reads() -> None:
    own = importlib.metadata.distribution("stallwatch")
    points = own.entry_points.select(group="stallwatch.commands")
    assert installed.own_commands() == {point.name: point.value for point in points}
    assert installed.version() == own.version


def test_our_own_commands_start_without_the_slow_import() -> None:
    code = (
        "import sys\nfrom engine.cli.main import main\nmain(['version'])\n"
        "sys.exit('importlib.metadata' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_first_installation_on_the_path_counts_and_a_foreign_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, version in (("first", "1.2"), ("second", "3.4")):
        folder = tmp_path / place / f"stallwatch-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "entry_points.txt").write_text(OTHER)
    (tmp_path / "first" / "stallwatch_more-9.dist-info").mkdir()
    places = ["missing", str(tmp_path / "first"), str(tmp_path / "second")]
    monkeypatch.setattr(sys, "path", places)
    assert installed.version() == "1.2"
    assert installed.own_commands() == {"more": "other.more:MoreCommand"}


def test_without_an_installation_on_the_path_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert installed.folder() is None
    assert installed.own_commands() == {}
