"""The bench of the live tick runs, on few series."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bench.tick import pack, run
from rules.loader import load_paths

if TYPE_CHECKING:
    from pathlib import Path


def test_its_pack_has_as_many_rules_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "pack.yaml"
    path.write_text(pack(100))
    (file,) = load_paths([str(path)])
    assert sum(len(group.rules) for group in file.groups) == 100


def test_a_tick_is_told_with_its_parts(tmp_path: Path) -> None:
    arguments = argparse.Namespace(series=80, rules=20, ticks=1, profile=False)
    found = run(arguments, tmp_path)
    assert list(found) == [
        *("series", "rules", "tick", "median"),
        *("store", "evaluate", "state", "commit"),
    ]
