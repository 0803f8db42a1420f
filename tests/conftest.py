"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
