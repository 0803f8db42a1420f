"""Skips for tests that need the kernel's help."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _root_when_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root and a kernel that loads BPF")
