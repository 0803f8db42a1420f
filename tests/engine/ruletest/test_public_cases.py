"""promtool 3's verdicts on the unit-test files of its own repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from engine.ruletest.running import RunOptions, run_file

if TYPE_CHECKING:
    from pathlib import Path

PASSING = [
    ("unittest.yml", None),
    ("long-period.yml", None),
    ("at-modifier-test.yml", None),
    ("negative-offset-test.yml", None),
    ("no-test-group-interval.yml", None),
    ("start-time-test.yml", None),
    ("rules_run.yml", "correct"),
    ("rules_run_fuzzy.yml", "correct"),
]
REFUSED = [
    ("failing.yml", None, "failed"),
    ("bad-input-series.yml", None, "error"),
    ("bad-promql.yml", None, "failed"),
    ("bad-rules-error-test.yml", None, "failed"),
    ("bad-rules-syntax-test.yml", None, "error"),
    ("rules_run.yml", None, "failed"),
    ("rules_run.yml", "wrong", "failed"),
    ("rules_run_no_fuzzy.yml", None, "failed"),
    ("rules_run_fuzzy.yml", "wrong", "failed"),
    ("rules_run_extrafields.yml", None, "error"),
]


def _options(run: str | None, *, ignore_unknown_fields: bool = False) -> RunOptions:
    return RunOptions(None if run is None else re.compile(run), ignore_unknown_fields)


@pytest.mark.parametrize(("name", "run"), PASSING)
def test_a_file_that_promtool_passes_passes(shared: Path, name: str, run: str | None) -> None:
    verdict = run_file(shared / "cases/ruletests" / name, _options(run))
    assert verdict.status == "passed", (verdict.problems, verdict.failures)
    assert verdict.skipped == ()


@pytest.mark.parametrize(("name", "run", "status"), REFUSED)
def test_a_file_that_promtool_fails_or_refuses_does_not_pass(
    shared: Path, name: str, run: str | None, status: str
) -> None:
    assert run_file(shared / "cases/ruletests" / name, _options(run)).status == status


def test_unknown_fields_of_rule_files_can_be_ignored(shared: Path) -> None:
    path = shared / "cases/ruletests/rules_run_extrafields.yml"
    assert run_file(path, _options(None, ignore_unknown_fields=True)).status == "passed"
