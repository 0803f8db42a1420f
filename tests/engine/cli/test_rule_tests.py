from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

RULES = """\
groups:
- name: a
  rules:
  - record: doubled
    expr: x * 2
  - alert: High
    expr: doubled > 10
    for: 2m
    labels: {severity: page}
    annotations: {summary: 'x of {{ $labels.host }} is {{ $value }}'}
"""
TEST = """\
rule_files: [rules.yaml]
tests:
- name: it rises
  input_series:
  - {series: 'x{host="one"}', values: '0+2x10'}
  alert_rule_test:
  - eval_time: 4m
    alertname: High
  - eval_time: 5m
    alertname: High
    exp_alerts:
    - exp_labels: {host: one, severity: page}
      exp_annotations: {summary: x of one is 20}
  promql_expr_test:
  - expr: doubled
    eval_time: 1m
    exp_samples: [{labels: 'doubled{host="one"}', value: 4}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "good.yaml").write_text(TEST)
    wrong = TEST.replace("is 20", "is 21").replace("host: one", "host: two")
    (tmp_path / "wrong.yaml").write_text(wrong)
    (tmp_path / "bad.yaml").write_text(TEST.replace("0+2x10", "0+2y10"))
    return tmp_path


def test_a_test_that_holds_is_a_success(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "good.yaml"]) == 0
    assert capsys.readouterr().out == "good.yaml: SUCCESS: 1 test, 3 checks\n"


def test_a_failure_shows_label_by_label_what_differs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "wrong.yaml", "good.yaml"]) == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "wrong.yaml:9:5: alert High at 5m in test 'it rises': 1 of 1 alert differs\n"
    )
    assert '        label host\n          - "two"\n          + "one"\n' in out
    assert '          - "x of one is 21"\n          + "x of one is 20"\n' in out
    assert "wrong.yaml: FAILED: 1 failure in 1 of 1 test\ngood.yaml: SUCCESS" in out


def test_a_sample_with_another_name_differs_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "other.yaml").write_text(
        "tests:\n"
        "- input_series: [{series: a, values: 1}]\n"
        "  promql_expr_test:\n"
        "  - {expr: a, eval_time: 0, exp_samples: [{labels: b, value: 1}]}\n"
    )
    assert main(["test", "other.yaml"]) == 1
    assert "in test 'unnamed#0': 1 of 1 sample differs\n" in capsys.readouterr().out


def test_no_label_steers_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "red.yaml").write_text(
        "tests:\n"
        '- name: "\\e[31m"\n'
        "  input_series: [{series: 'a{b=\"\\x1b[2J\"}', values: 1}]\n"
        "  promql_expr_test: [{expr: a, eval_time: 0}]\n"
    )
    assert main(["test", "red.yaml"]) == 1
    out = capsys.readouterr().out
    assert 'a{b="\\x1b[2J"} 1' in out
    assert "\x1b" not in out


def test_a_file_that_cannot_run_is_told_apart_from_one_that_fails(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "bad.yaml", "wrong.yaml"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bad.yaml:5:40: '0+2y10' is no value of a series\n")
    assert "bad.yaml: ERROR: it could not run" in error
    assert main(["test", "nothing.yaml"]) == 2


def test_a_rule_file_that_is_not_there_fails_the_test(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "lost.yaml").write_text(TEST.replace("rules.yaml", "rule.yaml"))
    assert main(["test", "lost.yaml"]) == 2
    assert "lost.yaml:1:14: no rule file matches 'rule.yaml'" in capsys.readouterr().err


def test_json_and_junit_tell_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["bad.yaml", "good.yaml", "wrong.yaml"]
    assert main(["test", "--format", "json", *files]) == 2
    found = json.loads(capsys.readouterr().out)["files"]
    assert [one["status"] for one in found] == ["error", "passed", "failed"]
    (failure,) = found[2]["tests"][0]["failures"]
    assert (failure["line"], failure["column"]) == (9, 5)
    assert failure["differences"][0]["fields"][0] == {
        "kind": "label", "name": "host", "expected": "two", "got": "one",
    }  # fmt: skip
    assert main(["test", "--format", "junit", *files]) == 2
    root = ET.fromstring(capsys.readouterr().out)
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "0",
    }  # fmt: skip
    failed = root.find("testsuite[@name='wrong.yaml']/testcase/failure")
    assert failed is not None
    assert failed.get("message") == "alert High at 5m: 1 of 1 alert differs"
    assert "wrong.yaml:9:5" in (failed.text or "")


def test_run_chooses_tests_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--run", "falls", "--run", "rises$", "wrong.yaml"]) == 1
    assert "no test has a name" not in capsys.readouterr().err
    assert main(["test", "--run", "falls", "wrong.yaml"]) == 0
    out, err = capsys.readouterr()
    assert err == "stallwatch: no test has a name that --run finds\n"
    assert out.endswith("wrong.yaml: SUCCESS: 0 tests, 0 checks\n")
    assert main(["test", "--run", "(", "wrong.yaml"]) == 2


def test_of_a_directory_the_files_with_tests_are_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("wrong.yaml", "bad.yaml"):
        (folder / name).unlink()
    assert main(["test", "."]) == 0
    assert capsys.readouterr().out == "good.yaml: SUCCESS: 1 test, 3 checks\n"
    (folder / "good.yaml").unlink()
    assert main(["test", "."]) == 2
    assert "no unit-test file there" in capsys.readouterr().err


def test_unknown_fields_are_refused_at_their_place_unless_those_of_rule_files_are_ignored(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rules.yaml").write_text(RULES.replace("- name: a\n", "- name: a\n  owner: me\n"))
    assert main(["test", "good.yaml"]) == 2
    assert "rules.yaml:3:3: a group has no field 'owner'" in capsys.readouterr().err
    assert main(["test", "--ignore-unknown-fields", "good.yaml"]) == 0
    # As in promtool: a test file's own fields are always checked.
    (folder / "odd.yaml").write_text(TEST.replace("- name: it", "- owner: me\n  name: it"))
    assert main(["test", "--ignore-unknown-fields", "odd.yaml"]) == 2
    assert "odd.yaml:3:3: a test has no field 'owner'" in capsys.readouterr().err
