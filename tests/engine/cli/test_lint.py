from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

RULES = """\
groups:
- name: a
  rules:
  - record: task:retrans:rate5m
    expr: sum by (task_id) (rate(tcp_retrans_total[5m]))
  - alert: A
    expr: task:retrans:rate5m > 0.5
    annotations: {summary: "task {{ $labels.task_id }}"}
  - alert: B
    expr: gpu_utilisation{gpu="0"} < 60 and on () gpu_utilization{gpu="9"} < 60
"""
DATA = """\
timestamp,value,__name__,task_id,gpu
1700000000000,1,tcp_retrans_total,t,
1700000000000,50,gpu_utilization,t,0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "data.csv").write_text(DATA)
    return tmp_path


def test_without_lint_such_rules_pass(folder: Path) -> None:
    assert main(["check", "rules.yaml"]) == 0


def test_lint_alone_finds_nothing_that_only_data_can_tell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--lint", "rules.yaml"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("rules.yaml: SUCCESS: 3 rules in 1 group\n")


def test_with_data_a_selector_that_matches_nothing_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--lint", "--data", "data.csv", "rules.yaml"]) == 1
    out = capsys.readouterr().out
    assert (
        "rules.yaml:10:11: warning: there is no metric 'gpu_utilisation' in the data\n"
        '        expr: gpu_utilisation{gpu="0"} < 60 and on () gpu_utilization{gpu="9"} < 60\n'
        "              ^^^^^^^^^^^^^^^\n"
        "    hint: did you mean 'gpu_utilization'?\n"
        "    no-data: see docs/lint/no-data.md\n"
    ) in out
    assert 'no series of this metric in the data satisfies gpu="9"' in out
    # A name that a rule records is no missing metric.
    assert "task:retrans:rate5m" not in out.replace("expr: task:retrans:rate5m", "")
    assert out.endswith("SUCCESS: 3 rules in 1 group, 2 findings\n")


def test_a_finding_is_data_for_machines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rules.yaml").write_text(RULES.replace("> 0.5", "> bool 0.5"))
    assert main(["check", "--lint", "--format", "json", "rules.yaml"]) == 1
    (found,) = json.loads(capsys.readouterr().out)[0]["problems"]
    assert found["code"] == "never-resolves"
    assert found["severity"] == "warning"
    assert (found["line"], found["column"], found["end_column"]) == (7, 11, 41)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "data.csv"], "--data, --interval and --ignore belong to --lint"),
        (["--lint", "--ignore", "never-fire"], "did you mean 'never-fires'?"),
        (["--lint", "--interval", "soon"], "--interval: "),
        (["--lint", "--data", "missing.csv"], "missing.csv"),
    ],
)
def test_a_wrong_argument_gets_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["check", "rules.yaml", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_kind_of_finding_can_be_left_out(folder: Path) -> None:
    (folder / "rules.yaml").write_text(RULES.replace("> 0.5", "> bool 0.5"))
    assert main(["check", "--lint", "--ignore", "never-resolves", "rules.yaml"]) == 0


def test_the_interval_decides_what_is_too_short(folder: Path) -> None:
    (folder / "rules.yaml").write_text(RULES.replace("> 0.5\n", "> 0.5\n    for: 30s\n"))
    assert main(["check", "--lint", "rules.yaml"]) == 0
    assert main(["check", "--lint", "--interval", "1m", "rules.yaml"]) == 1
