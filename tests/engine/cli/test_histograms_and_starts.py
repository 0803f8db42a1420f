"""Commands over data with native histograms and start timestamps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

T = 1_700_000_000
DATA = f"""\
timestamp,__name__,value,start_timestamp,histogram,rank
{T}000,lat,,,{{{{schema:0 count:5 sum:3 buckets:[1 2 2]}}}},0
{T + 10}000,lat,,,{{{{schema:0 count:6 sum:3 buckets:[2 2 2]}}}},0
{T}000,lat,1,,,1
{T + 10}000,lat,2,,,1
{T}000,steps_total,5,{T - 10}000,,0
{T + 10}000,steps_total,6,{T + 5}000,,0
"""
OPENMETRICS = f"""\
# TYPE steps counter
steps_total 5 {T}
steps_created {T - 10} {T}
steps_total 6 {T + 10}
steps_created {T + 5} {T + 10}
# EOF
"""
RULES = """\
groups:
  - name: latency
    rules:
      - alert: Two
        expr: count(lat) > 1
      - alert: Needs
        expr: |
          abs(
            histogram_count(lat)) > 2
      - alert: Restarted
        expr: resets(steps_total[1m]) > 0
"""


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.csv"
    path.write_text(DATA)
    return str(path)


def query(expression: str, data: str, *more: str) -> int:
    arguments = [expression, "--data", data, "--time", str(T + 10), "--format", "json", *more]
    return main(["query", *arguments])


IGNORED = {
    "count(lat)": {"{}": "2"},
    "lat > 1": {'lat{rank="1"}': "2"},
    "abs(lat)": {'{rank="1"}': "2"},
    "max(lat)": {"{}": "2"},
    "timestamp(lat)": {'{rank="0"}': f"{T + 10}", '{rank="1"}': f"{T + 10}"},
    "count_over_time(lat[1m])": {'{rank="0"}': "2", '{rank="1"}': "2"},
    "max_over_time(lat[1m])": {'{rank="1"}': "2"},
    'lat{rank="1"}': {'lat{rank="1"}': "2"},
    "absent(lat)": {},
}


@pytest.mark.parametrize("expression", IGNORED)
def test_what_ignores_histograms_has_a_value(
    expression: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from engine.labels import Labels

    assert query(expression, data) == 0
    found = json.loads(capsys.readouterr().out)["result"]
    assert {str(Labels(row["metric"])) or "{}": row["value"][1] for row in found} == IGNORED[
        expression
    ]


NEEDED = {
    "lat": "<expression>:1:1: the result needs native histograms\n    lat\n    ^^^",
    "lat[1m]": "<expression>:1:1: the result needs native histograms",
    "1 + histogram_count(lat)": "<expression>:1:5: histogram_count needs native histograms",
    "histogram_quantile(0.9, lat)": "<expression>:1:25: this function of histograms needs native",
    "rate(lat[1m])": "<expression>:1:6: a function of histograms needs native histograms",
    "sum by (rank) (lat)": "<expression>:1:16: sum needs native histograms",
}


@pytest.mark.parametrize("expression", NEEDED)
def test_where_one_decides_the_result_the_query_fails_at_the_place(
    expression: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(expression, data) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(NEEDED[expression])
    assert "Traceback" not in shown.err


def test_a_rule_that_needs_one_fails_at_its_place_and_the_others_go_on(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "r.yaml"
    rules.write_text(RULES)
    assert main(["dry-run", "--rules", str(rules), "--data", data, "--format", "json"]) == 1
    shown = capsys.readouterr()
    assert [one["alertname"] for one in json.loads(shown.out)["alerts"]] == ["Two"]
    (line,) = shown.err.splitlines()
    assert line.startswith(f"{rules}:9:13: group latency: rule Needs: failed 2 times, first at ")
    assert line.endswith(": histogram_count needs native histograms")


@pytest.mark.parametrize(
    ("more", "resets", "rate"), [([], "0", 1 / 60), (["--use-start-timestamps"], "1", 6 / 60)]
)
@pytest.mark.parametrize("form", ["csv", "parquet", "recording", "om"])
def test_start_timestamps_tell_of_resets_when_switched_on(
    tmp_path: Path,
    data: str,
    form: str,
    more: list[str],
    resets: str,
    rate: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if form == "parquet":
        assert main(["export", data, "--out", f"{tmp_path}/data.parquet"]) == 0
        data = f"{tmp_path}/data.parquet"
    elif form == "recording":
        assert main(["import", data, "--out", f"{tmp_path}/rec"]) == 0
        data = f"{tmp_path}/rec"
    elif form == "om":
        (tmp_path / "data.om").write_text(OPENMETRICS)
        data = f"{tmp_path}/data.om"
    assert query("resets(steps_total[1m])", data, *more) == 0
    assert json.loads(capsys.readouterr().out)["result"][0]["value"][1] == resets
    assert query("rate(steps_total[1m])", data, *more) == 0
    found = float(json.loads(capsys.readouterr().out)["result"][0]["value"][1])
    assert found > rate


def test_a_dry_run_sees_resets_by_start_when_switched_on(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "r.yaml"
    rules.write_text(RULES)
    arguments = ["dry-run", "--rules", str(rules), "--data", data, "--format", "json"]
    for more, expected in ([], ["Two"]), (["--use-start-timestamps"], ["Restarted", "Two"]):
        main([*arguments, *more])
        alerts = json.loads(capsys.readouterr().out)["alerts"]
        assert sorted(one["alertname"] for one in alerts) == expected
