"""`x@st` before `x` in the input series of a unit test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from engine.labels import Labels
from engine.ruletest.start_times import StartTimeError, StartTimes, read_starts
from rules.source import Span

if TYPE_CHECKING:
    from pathlib import Path

READ = {
    "-30s 0 -1m": (-30_000, 0, -60_000),
    "-1mx2 _ _x2 *": (-60_000, -60_000, -60_000, None, None, None, -60_000),
    "0-1mx2": (0, -60_000, -120_000),
    "*x1": (0, 0),
    "+5s -5s--1sx1": (5_000, -5_000, -4_000),
    "": (),
}


@pytest.mark.parametrize("text", READ)
def test_start_times_are_read(text: str) -> None:
    assert read_starts(text) == READ[text]


@pytest.mark.parametrize("text", ["soon", "1", "*-1mx2", "_x0", "-1mx99999999", "1m,2m"])
def test_what_is_no_start_time_is_refused(text: str) -> None:
    with pytest.raises(StartTimeError):
        read_starts(text)


def test_without_a_name_they_are_those_of_all_that_follow_over_and_over() -> None:
    starts = StartTimes()
    starts.read(Labels(), "-1m -2m", Span(0, 1))
    assert starts.of(Labels.of(__name__="x"), 3) == (-60_000, -120_000, -60_000)


TEST = """\
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'steps_total{rank="0"}@st'
        values: '-1m -30sx1'
      - series: 'steps_total{rank="0"}'
        values: '5 6 9'
    promql_expr_test:
      - expr: resets(steps_total[5m])
        eval_time: 2m
        exp_samples: [{labels: '{rank="0"}', value: RESETS}]
"""


@pytest.mark.parametrize(("more", "resets"), [([], "0"), (["--use-start-timestamps"], "2")])
def test_they_tell_of_resets_when_switched_on(tmp_path: Path, more: list[str], resets: str) -> None:
    path = tmp_path / "t.test.yaml"
    path.write_text(TEST.replace("RESETS", resets))
    assert main(["test", str(path), *more]) == 0


BROKEN = {
    "-1m -30s": "t.yaml:7:17: 2 start times for 3 samples",
    "soon": "t.yaml:6:17: 'soon' is no start time",
}


@pytest.mark.parametrize("starts", BROKEN)
def test_a_wrong_entry_is_told_at_its_place(
    tmp_path: Path, starts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TEST.replace("-1m -30sx1", starts).replace("RESETS", "0"))
    assert main(["test", str(path)]) == 2
    assert BROKEN[starts] in capsys.readouterr().err


def test_an_entry_without_its_series_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TEST.replace("series: 'steps_total{rank=\"0\"}'", "series: other"))
    assert main(["test", str(path)]) == 2
    assert "the '@st' before is of steps_total" in capsys.readouterr().err
