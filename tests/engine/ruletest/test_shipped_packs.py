"""The tests of the shipped rules, run as a user runs them; promtool runs them in tests/rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.ruletest.coverage import Coverage
from engine.ruletest.reports.coverage import render
from engine.ruletest.running import RunOptions, run_file

FOLDER = Path(__file__).resolve().parents[2] / "rules/packs"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.test.yaml")), ids=lambda path: path.stem)
def test_a_shipped_pack_passes_its_tests_and_they_leave_nothing_untried(path: Path) -> None:
    coverage = Coverage()
    verdict = run_file(path, RunOptions(coverage=coverage))
    assert verdict.status == "passed", (verdict.problems, verdict.failures)
    assert coverage.rules
    assert all(rule.complete for rule in coverage.rules), render(coverage)
