from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.cli.main import main
from engine.dataset import open_data
from engine.dataset.parquet_form import write_parquet
from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Recorder, open_recording
from engine.series import STALE_NAN, Series

START = 1_700_000_000_000
TIMES = np.arange(START, START + 7_200_000, 10_000)
EVERY_KIND = [1.5, np.nan, np.inf, -np.inf, -0.0, 1e-320, 0.1 + 0.2, 1e300]


def series(*, stale: bool = True) -> tuple[Series, ...]:
    values = np.resize(np.array([*EVERY_KIND, *([float(STALE_NAN)] if stale else [])]), TIMES.size)
    odd = Labels({"__name__": "m", "value": "v", "timestamp": "t", "label.x": 'a,"b\n', "é": "ü\r"})
    first = Series(Labels.of(__name__="up", rank="0"), TIMES, values)
    return (Series(odd, TIMES[::7], values[::7]), first)


def bits(path: str) -> list[tuple[Labels, bytes, bytes]]:
    found = open_data(path).select((), -(1 << 60), 1 << 60)
    return [
        (one.labels, one.timestamps_ms.tobytes(), np.ascontiguousarray(one.values).tobytes())
        for one in found
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet", "om"])
def test_import_of_an_export_is_the_same_bit_for_bit(tmp_path: Path, ending: str) -> None:
    original = str(tmp_path / "original.parquet")
    write_parquet(original, series(stale=ending != "om"))
    exported, recording = str(tmp_path / f"exported.{ending}"), str(tmp_path / "recording")
    assert main(["export", original, "--out", exported]) == 0
    assert main(["import", exported, "--out", recording]) == 0
    assert bits(exported) == bits(original)
    assert bits(recording) == bits(original)
    assert len(bits(original)) == 2


def test_a_marker_that_openmetrics_cannot_spell_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = str(tmp_path / "original.parquet")
    write_parquet(original, series())
    assert main(["export", original, "--format", "openmetrics", "--out", "-"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("# EOF\n")
    assert "staleness markers are left out" in err


def test_a_recording_imported_brings_events_slots_and_derived_series(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    recorder = Recorder(first, node="n1", flush_interval_ms=5_000)
    event = TaskEvent(START - 1, START, "k", "n1", "t", "0", 1)
    recorder.log_restart(START)
    recorder.write(Flush(START, (Labels.of(__name__="up"),), np.array([1.0]), (event,)))
    recorder.write_samples(START, [Labels.of(__name__="job:up")], np.array([1.0]))
    recorder.log_evaluated("f", "g", START)
    recorder.close()
    assert main(["import", first, "--out", second]) == 0
    copy = open_recording(second)
    assert (copy.node, copy.flush_interval_ms, copy.restarts) == ("n1", 5_000, (START,))
    assert copy.events("t", 0, START, START) == [event]
    assert copy.slots("f", "g").evaluated.tolist() == [START]
    assert [one.labels.name for one in copy.select((), 0, START)] == ["up"]
    assert [one.labels.name for one in copy.select_derived((), 0, START)] == ["job:up"]


def test_export_takes_selectors_and_a_range(tmp_path: Path) -> None:
    original, out = str(tmp_path / "original.parquet"), str(tmp_path / "out.csv")
    write_parquet(original, series())
    arguments = ["--match", 'up{rank=~"0|1"}', "--start", "1700000010", "--end", "1700000020"]
    assert main(["export", original, "--out", out, *arguments]) == 0
    assert Path(out).read_text(encoding="utf-8").splitlines() == [
        "timestamp,__name__,value,rank",
        "1700000010000,up,NaN,0",
        "1700000020000,up,+Inf,0",
    ]


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.csv"
    rows = [f"{START + step * 30_000},c,{step * 3},{rank}" for step in range(20) for rank in "01"]
    path.write_text("timestamp,__name__,value,rank\n" + "\n".join(rows) + "\n")
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    assert main(["query", *arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_range_query_answers_as_query_range(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(
        capsys, 'c{rank="0"}', "--data", data, "--start", "1700000000", "--end",
        "1700000061.5", "--step", "30",
    )  # fmt: skip
    values = [[1700000000, "0"], [1700000030, "3"], [1700000060, "6"]]
    result = [{"metric": {"__name__": "c", "rank": "0"}, "values": values}]
    assert found == {"resultType": "matrix", "result": result}


def test_an_instant_query_answers_a_vector(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "sum(rate(c[1m]))", "--data", data, "--time", "2023-11-14T22:18:20Z")
    assert found == {
        "resultType": "vector",
        "result": [{"metric": {}, "value": [1700000300, "0.2"]}],
    }


def test_at_samples_evaluates_at_each_sample(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, 'c{rank="1"} > 50', "--data", data, "--at", "samples")
    values = [[1700000000 + step * 30, str(step * 3)] for step in range(17, 20)]
    result = [{"metric": {"__name__": "c", "rank": "1"}, "values": values}]
    assert found == {"resultType": "matrix", "result": result}


def test_without_a_range_the_whole_data_in_their_own_spacing(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", 'c{rank="0"}', "--data", data]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ['c{rank="0"}', "  2023-11-14T22:13:20Z      0"]
    assert len(out) == 21


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "sum(", "--data", "DATA"], "<expression>:1:5: "),
        (["query", "c", "--data", "DATA.absent"], "DATA.absent: there is no such file or folder"),
        (["query", "c", "--data", "DATA", "--start", "noon"], "stallwatch: --start: cannot parse"),
        (["query", "c", "--data", "DATA", "--step", "0"], "stallwatch: --step: '0' is not a pos"),
        (["query", "c", "--data", "DATA", "--step", "x"], "stallwatch: --step: "),
        (["query", "c", "--data", "DATA", "--end", "5"], "stallwatch: --end is before the first"),
        (["query", "c[1m]", "--data", "DATA"], "stallwatch: a range vector has no value"),
        (
            ["query", "c", "--data", "DATA", "--time", "5", "--end", "5"],
            "stallwatch: --time is one",
        ),
        (["export", "DATA", "--out", "x.bin"], "stallwatch: cannot tell the format of 'x.bin'"),
        (["export", "DATA", "--out", "x.csv", "--match", "absent"], "DATA: no sample matches"),
        (["export", "DATA", "--out", "x.csv", "--match", "1+1"], "stallwatch: --match: '1+1' is"),
        (["export", "DATA", "--out", "/proc/x/y.csv"], "stallwatch: /proc/x/y.csv.tmp: No such"),
        (["import", "DATA", "--out", "DATA"], "DATA: cannot record here: File exists"),
        (["import", "DATA", "--out", "/proc/x"], "/proc/x: cannot record here: "),
    ],
)
def test_what_cannot_run_says_why_in_one_error_and_exits_2(
    data: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([text.replace("DATA", data) for text in arguments]) == 2
    error = capsys.readouterr().err
    assert error.replace(data, "DATA").startswith(message)
    assert "Traceback" not in error


def test_import_refuses_a_folder_that_holds_something_else(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(Path(data).parent)
    assert main(["import", data, "--out", folder]) == 2
    assert "is neither empty nor a recording" in capsys.readouterr().err


def test_export_to_a_device_leaves_the_device_in_its_place(data: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.symlink_to("/dev/null")
    assert main(["export", data, "--out", str(out)]) == 0
    assert out.is_symlink()
    assert main(["export", data, "--out", str(tmp_path), "--format", "csv"]) == 2
    assert tmp_path.is_dir()
