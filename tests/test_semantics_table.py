"""docs/semantics.md is complete, and every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = [
    line.strip("|").split("|")
    for line in (ROOT / "docs/semantics.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]


def test_every_line_has_its_row() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 43))


def test_every_row_names_tests_that_exist_or_says_not_yet() -> None:
    for number, meaning, shown in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", shown)
        assert named or ("not yet" in shown and "**Not yet:**" in meaning), number
        for path, test in named:
            assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), (number, test)
