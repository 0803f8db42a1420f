"""Findings in expressions, read from expressions.txt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rules.lint import lint
from rules.loader import load_source
from rules.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.source import Problem

TABLE = Path(__file__).with_name("expressions.txt")
FRAME = """\
groups:
  - name: cases
    rules:
      - alert: Case
        expr: |-
          {expr}
"""


def cases() -> Iterator[tuple[str, str]]:
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            expr, _, said = line.partition(" => ")
            yield expr, said


def findings(text: str) -> tuple[Problem, ...]:
    loaded = load_source(Source("case.yaml", text))
    assert loaded.file is not None
    assert not loaded.problems
    return lint(loaded.file)


@pytest.mark.parametrize(("marked", "said"), list(cases()))
def test_each_expression_gets_its_finding_at_its_place(marked: str, said: str) -> None:
    plain = re.sub("[«»]", "", marked)
    found = findings(FRAME.format(expr=plain))
    if said == "fine":
        assert [problem.render() for problem in found] == []
        return
    (problem,) = found
    assert f"{problem.code}: {problem.message}".startswith(said)
    place = problem.source.text[problem.span.start : problem.span.end]
    assert place == marked.partition("«")[2].partition("»")[0]
    assert problem.severity == "warning"
