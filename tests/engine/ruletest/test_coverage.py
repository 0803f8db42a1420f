from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.ruletest.coverage import Coverage
from engine.ruletest.reports.coverage import render, report
from engine.ruletest.running import RunOptions, run_file

if TYPE_CHECKING:
    from pathlib import Path

TEST = """\
rule_files: [rules.yaml]
tests:
- input_series:
  - {series: 'x{a="1"}', values: '0 5 20'}
  - {series: 'y{a="1"}', values: '1x2'}
  promql_expr_test: [{expr: time(), eval_time: 2m, exp_samples: [{value: 120}]}]
"""


def _covered(folder: Path, expr: str, test: str = TEST) -> Coverage:
    (folder / "rules.yaml").write_text(
        f"groups:\n- name: g\n  rules:\n  - record: r\n    expr: {expr}\n"
    )
    (folder / "test.yaml").write_text(test)
    coverage = Coverage()
    assert run_file(folder / "test.yaml", RunOptions(coverage=coverage)).status == "passed"
    return coverage


# The expression; whether it gave anything; for each comparison whether it was seen true, false.
CASES = [
    ("x > 10", True, [(True, True)]),
    ("x > 30", False, [(False, True)]),
    ("x >= 0", True, [(True, False)]),
    ("x > bool 30", True, [(False, True)]),
    ("nothing > 1", False, [(False, False)]),
    ("x > 10 and y == 1", True, [(True, True), (True, False)]),
    ("10 < x", True, [(True, True)]),
    ("x > y", True, [(True, True)]),
    ("vector(1 == bool 1)", True, [(True, False)]),
    ("'{__name__=~\"x|y\"} > 1'", True, [(True, True)]),
    ("max_over_time((x > bool 10)[2m:1m])", True, [(True, True)]),
    ("count_over_time((x > 4)[2m:1m]) > 1", True, [(True, True), (True, True)]),
    ("x", True, []),
]


@pytest.mark.parametrize(("expr", "gave", "seen"), CASES, ids=[case[0] for case in CASES])
def test_a_comparison_is_covered_when_elements_fell_on_both_sides(
    tmp_path: Path, expr: str, gave: bool, seen: list[tuple[bool, bool]]
) -> None:
    (rule,) = _covered(tmp_path, expr).rules
    assert rule.gave == gave
    found = sorted((c.node.op_span.start, c.saw_true, c.saw_false) for c in rule.comparisons)
    assert [(true, false) for _, true, false in found] == seen


def test_what_is_missing_is_named_at_its_place(tmp_path: Path) -> None:
    text = render(_covered(tmp_path, "x > 30"))
    assert "rules.yaml:5:11: warning: rule r: no test evaluates it to anything\n" in text
    assert (
        "rules.yaml:5:11: warning: rule r: no test has an element for which this comparison is "
        "true\n        expr: x > 30\n              ^^^^^^\n"
    ) in text
    assert text.endswith(
        "coverage: 0 of 1 rules gave a result, 0 of 1 comparisons were seen true and false"
    )


def test_the_resolve_expression_is_tried_too(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        "groups:\n- name: g\n  rules:\n  - alert: R\n    expr: x > 10\n"
        "    annotations:\n      stallwatch_resolve_expr: x > -1\n"
    )
    (tmp_path / "test.yaml").write_text(TEST)
    coverage = Coverage()
    run_file(tmp_path / "test.yaml", RunOptions(coverage=coverage))
    shown = render(coverage)
    assert "rules.yaml:7:32: warning: rule R: no test has an element for which this" in shown
    assert "1 of 2 comparisons were seen true and false" in shown


def test_tests_of_several_files_add_up(tmp_path: Path) -> None:
    coverage = _covered(tmp_path, "x > 30")
    (tmp_path / "more.yaml").write_text(TEST.replace("0 5 20", "40x2"))
    run_file(tmp_path / "more.yaml", RunOptions(coverage=coverage))
    found = report(coverage)
    assert (found["rules"], found["evaluated"]) == (1, 1)
    assert (found["comparisons"], found["comparisons_covered"]) == (1, 1)
    assert found["details"][0]["comparisons"] == [
        {"text": "x > 30", "line": 5, "column": 11, "true": True, "false": True}
    ]
