"""Wrong expressions beside the expected message, read from `cases/mistakes.txt`."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rules.promql.ast import VectorSelector

if TYPE_CHECKING:
    from collections.abc import Callable

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


def bare(node: object) -> object:
    """A tree without spans and with its matchers sorted, to compare what trees mean."""
    if isinstance(node, VectorSelector):
        order = sorted(node.matchers, key=lambda m: (m.label, m.op, m.value))
        node = replace(node, matchers=tuple(order))
    if isinstance(node, tuple):
        return tuple(bare(item) for item in node)
    if not is_dataclass(node):
        return node
    kept = [f.name for f in fields(node) if not f.name.endswith("span")]
    return (type(node).__name__, *(bare(getattr(node, name)) for name in kept))


@pytest.fixture(scope="session", name="bare")
def bare_fixture() -> Callable[[object], object]:
    return bare


@pytest.fixture(scope="session")
def public_expressions(shared: Path) -> dict[str, str]:
    """Every expression of the public rule files and unit-test files, with the file it is from."""
    found = {}
    cases = shared / "cases"
    for path in sorted([*cases.glob("rulefiles/**/*.y*ml"), *cases.glob("ruletests/**/*.y*ml")]):
        pending: list[Any] = list(yaml.safe_load_all(path.read_text("utf-8")))
        while pending:
            node = pending.pop()
            if isinstance(node, dict):
                if isinstance(node.get("expr"), str | int):
                    found[str(node["expr"])] = path.name
                pending += node.values()
            elif isinstance(node, list):
                pending += node
    return found


@pytest.fixture(scope="session")
def evaluated_expressions(shared: Path) -> dict[str, str]:
    """Every expression that Prometheus' own evaluator vectors evaluate, with its file.

    Those that fail there are among them: they parse, or the vectors would not load.
    """
    command = re.compile(r"\s*eval(?:_\w+)? (?:instant at \S+|range from .*? step \S+)\s+(.*)")
    found = {}
    for path in sorted((shared / "cases" / "promqltest").glob("*.test")):
        for line in path.read_text("utf-8").splitlines():
            if match := command.fullmatch(line):
                found[match[1]] = path.name
    return found
