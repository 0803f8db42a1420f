"""Wrong expressions beside the expected message, read from `cases/mistakes.txt`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Mistake:
    """A wrong expression; `shown` is the caret line, the message and the hint of each problem."""

    section: str
    expression: str
    shown: str


def read_mistakes() -> list[Mistake]:
    section, found = "", []
    for block in (CASES / "mistakes.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        if block.startswith("## "):
            section = block.removeprefix("## ")
            continue
        expression, _, shown = block.partition("\n")
        found.append(Mistake(section, expression, shown))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mistake" in metafunc.fixturenames:
        mistakes = read_mistakes()
        metafunc.parametrize("mistake", mistakes, ids=[m.expression for m in mistakes])


@pytest.fixture(scope="session")
def mistakes() -> list[Mistake]:
    return read_mistakes()
