"""Our own cases, and Prometheus' vectors where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.promql.functions.table import IMPLEMENTATIONS
from rules.promql.functions import AGGREGATORS
from rules.promql.parser import parse
from rules.promql.walk import aggregates, calls
from tests.promqltest.runner import run_script
from tests.promqltest.script import Evaluation, parse_script

CASES = sorted((Path(__file__).parent / "cases").glob("*.test"))

# Evaluations of each public script that pass; the others need native histograms.
PUBLIC = {
    "aggregators.test": 155,
    "duration_expression.test": 59,
    "extended_vectors.test": 127,
    "fill-modifier.test": 46,
    "functions.test": 408,
    "histograms.test": 100,
    "literals.test": 25,
    "name_label_dropping.test": 30,
    "operators.test": 206,
    "selectors.test": 31,
    "staleness.test": 17,
    "start_timestamps.test": 18,
}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_our_cases_evaluate_as_written_in_every_mode(path: Path) -> None:
    tally = run_script(path.read_text(encoding="utf-8"))
    assert tally.failures == []
    assert tally.unsupported == []
    assert tally.passed > 0


@pytest.mark.parametrize("name", PUBLIC)
def test_public_vectors_pass_but_for_what_needs_native_histograms(name: str, shared: Path) -> None:
    path = shared / "cases" / "promqltest" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    tally = run_script(path.read_text(encoding="utf-8"))
    assert tally.failures == []
    assert tally.passed >= PUBLIC[name]


def test_every_function_and_aggregator_is_in_one_of_our_cases() -> None:
    seen: set[str] = set()
    for path in CASES:
        for command in parse_script(path.read_text(encoding="utf-8")):
            if isinstance(command, Evaluation) and not command.expects("fail"):
                tree = parse(command.expr)
                seen |= {call.func for call in calls(tree)}
                seen |= {aggregate.op for aggregate in aggregates(tree)}
    assert sorted({*IMPLEMENTATIONS, *AGGREGATORS} - seen) == []
