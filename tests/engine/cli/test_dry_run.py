from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

RULES = """\
groups:
  - name: comm
    interval: 10s
    rules:
      - record: task:wait:avg
        expr: avg by (task_id) (comm_wait_ratio)
      - alert: Waiting
        expr: task:wait:avg > 0.3
        for: 20s
        labels: {tier: "2"}
        annotations:
          summary: '{{ $labels.task_id }} waits {{ $value | humanizePercentage }} of its time'
"""
START = 1_700_000_000


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    """A job whose two ranks wait from second 30 to 99."""
    path = tmp_path / "data.csv"
    rows = [
        f"{(START + second) * 1000},{0.5 if 30 <= second < 100 else 0.1},comm_wait_ratio,a,{rank}"
        for second in range(0, 150, 10)
        for rank in (0, 1)
    ]
    path.write_text("\n".join(["timestamp,value,__name__,task_id,rank", *rows]) + "\n")
    return path


def dry_run(rules_file: Path, data_file: Path, *more: str) -> int:
    return main(["dry-run", "--rules", str(rules_file), "--data", str(data_file), *more])


def test_json_is_the_documented_object(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dry_run(rules_file, data_file, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "series": 2,
        "evaluations": 30,
        "start": START,
        "end": START + 140,
        "alerts": [
            {
                "alertname": "Waiting",
                "labels": {"alertname": "Waiting", "task_id": "a", "tier": "2"},
                "annotations": {"summary": "a waits 50% of its time"},
                "evidence": [
                    {"rank": "0", "comm_wait_ratio": 0.5},
                    {"rank": "1", "comm_wait_ratio": 0.5},
                ],
                "active_at": START + 30,
                "fired_at": START + 50,
                "resolved_at": START + 100,
                "value": 0.5,
            }
        ],
    }


def test_the_table_says_when_how_long_what_and_why(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dry_run(rules_file, data_file) == 0
    head, row, more, total = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "fired", "(UTC)", "duration", "alert", "labels", "value", "evidence",
    ]  # fmt: skip
    assert row.split() == [
        "2023-11-14", "22:14:10", "50s", "Waiting", "task_id=a,", "tier=2", "0.5",
        "rank", "0:", "comm_wait_ratio", "0.5",
    ]  # fmt: skip
    assert more.split() == ["rank", "1:", "comm_wait_ratio", "0.5"]
    assert total == "1 alert fired; 2 series, 30 rule evaluations"


def test_an_alert_still_firing_at_the_end_has_no_resolved_at(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = str(START + 70)
    assert dry_run(rules_file, data_file, "--end", end, "--format", "json") == 0
    (alert,) = json.loads(capsys.readouterr().out)["alerts"]
    assert (alert["fired_at"], alert["resolved_at"]) == (START + 50, None)


@pytest.mark.parametrize(
    ("more", "status"), [([], 0), (["--fail-on-alert"], 1), (["--end", str(START + 20)], 0)]
)
def test_fail_on_alert_makes_a_fired_alert_exit_1(
    rules_file: Path,
    data_file: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    status: int,
) -> None:
    assert dry_run(rules_file, data_file, *more) == status


def test_interval_is_that_of_groups_that_name_none(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules_file.write_text(RULES.replace("    interval: 10s\n", ""))
    assert dry_run(rules_file, data_file, "--interval", "20s", "--format", "json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["evaluations"] == 2 * 8
    assert [own["fired_at"] for own in result["alerts"]] == [START + 60]


def test_a_rule_that_fails_is_told_once_on_stderr_and_exits_1(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules_file.write_text(
        RULES.replace("avg by (task_id) (comm", "comm").replace(
            "ratio)", "ratio * on () comm_wait_ratio"
        )
    )
    assert dry_run(rules_file, data_file, "--format", "json") == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["alerts"] == []
    (line,) = shown.err.splitlines()
    assert line.startswith(
        f"{rules_file}:6:31: group comm: rule task:wait:avg: failed 15 times, first at "
        "2023-11-14T22:13:20Z: "
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--interval", "fast"], "--interval"),
        (["--interval", "0s"], "--interval: must be longer than 0"),
        (["--start", "yesterday"], "--start"),
        (["--start", "1700000100", "--end", "1700000000"], "--end is before --start"),
        (["--start", "1800000000"], "--start is after the last sample"),
        (["--end", "5"], "--end is before the first sample"),
        (["--end", "253402300799"], "more than 10,000,000 evaluation times from 2023-11-14T22:13"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
        (["--rules", "nowhere.yaml"], "nowhere.yaml"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_what_cannot_run_exits_2_with_one_clear_error(
    rules_file: Path,
    data_file: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    assert dry_run(rules_file, data_file, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert expected in shown.err
    assert "Traceback" not in shown.err


def test_a_wrong_rule_file_is_shown_with_its_place(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules_file.write_text(RULES.replace("> 0.3", "> > 0.3"))
    assert dry_run(rules_file, data_file) == 2
    assert f"{rules_file}:8:" in capsys.readouterr().err


def test_a_dry_run_that_evaluated_nothing_says_so(
    rules_file: Path, data_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules_file.write_text("")
    assert dry_run(rules_file, data_file) == 0
    assert "warning: nothing was evaluated: no rule, or no evaluation" in capsys.readouterr().err
