"""Our own cases, and Prometheus' vectors where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promqltest.runner import run_script

CASES = sorted((Path(__file__).parent / "cases").glob("*.test"))

# Evaluations of each public script that pass.
FLOORS = {
    "aggregators.test": 124,
    "duration_expression.test": 8,
    "extended_vectors.test": 30,
    "fill-modifier.test": 1,
    "functions.test": 300,
    "histograms.test": 80,
    "literals.test": 25,
    "name_label_dropping.test": 30,
    "operators.test": 140,
    "selectors.test": 31,
    "staleness.test": 17,
    "start_timestamps.test": 2,
}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_our_cases_evaluate_as_written_in_every_mode(path: Path) -> None:
    tally = run_script(path.read_text(encoding="utf-8"))
    assert tally.failures == []
    assert tally.unsupported == []
    assert tally.passed > 0


@pytest.mark.parametrize("name", FLOORS)
def test_public_vectors_pass_as_many_as_before(name: str, shared: Path) -> None:
    path = shared / "cases" / "promqltest" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    tally = run_script(path.read_text(encoding="utf-8"))
    assert tally.passed >= FLOORS[name]
    assert not [one for one in tally.failures if " mode)" in one.got]
