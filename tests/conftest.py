"""Fixtures that every test may use."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.state.shelter import MEMORY, shelter_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public test vectors beside the project; absent outside, then skip."""
    folder = Path(os.environ.get("STALLWATCH_SHARED", ROOT.parent / "shared"))
    if not (folder / "cases").is_dir():
        pytest.skip(f"no public test vectors at {folder} (set STALLWATCH_SHARED)")
    return folder


@pytest.fixture(autouse=True)
def _root_when_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root and a kernel that loads BPF")


@pytest.fixture(autouse=True)
def _nothing_stays_in_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """A state.db whose disk refuses it to the end is left in memory, for the next start to find.

    After a test there is none, so what belongs to a file in its folder goes. Whichever user ran
    the agent, the folder's name ends with what follows from the path of that file. One that was
    killed leaves its lock beside it.
    """
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    left = list(MEMORY.glob("stallwatch-*")) if folder else []
    if not (folder and left):
        return
    known = [shelter_of(one / "state.db").name for one in (folder, *folder.rglob("*"))]
    own = {name.rpartition("-")[2] for name in known}
    for one in left:
        if one.stem.rpartition("-")[2] not in own:
            continue
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()
