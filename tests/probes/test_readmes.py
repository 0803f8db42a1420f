"""Every probe's page has the same parts in the same order, so that each is found at once."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

PROBES = Path(__file__).resolve().parents[2] / "probes"
NAMES = sorted(each.name for each in entry_points(group="stallwatch.probes")
               if each.module.startswith("probes."))  # fmt: skip
PARTS = [
    "## Why these hooks",
    "## What it costs",
    "## Kernel and capabilities",
    "## Limits",
    "## What is lost, and how it says so",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_the_probe_tells_why_how_dear_where_and_how_it_loses(name: str) -> None:
    page = (PROBES / name / "README.md").read_text()
    first = page.index("| metric |")
    assert [first, *sorted(page.index(part) for part in PARTS)] == [
        first, *(page.index(part, first) for part in PARTS)
    ]  # fmt: skip
