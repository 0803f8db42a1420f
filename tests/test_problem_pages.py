"""Pages on problems from the field: each names a test that exists, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "problems"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
HELD_BY = re.compile(r"^Held by: `(tests/\S+\.py)::(\w+)`$", re.MULTILINE)


def test_there_are_six_and_the_index_has_them_all() -> None:
    assert len(PAGES) == 6
    index = (FOLDER / "README.md").read_text()
    assert all(f"({page.name})" in index for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_why_and_what_to_do_and_is_held_by_a_test(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "Why",
        "What stallwatch does",
        "What to do",
    ]
    ((file, name),) = HELD_BY.findall(text)
    assert f"\ndef {name}(" in (ROOT / file).read_text()


@pytest.mark.parametrize("page", [*PAGES, FOLDER / "README.md"], ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
