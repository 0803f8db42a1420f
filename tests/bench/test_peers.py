"""The comparison with Prometheus and VictoriaMetrics: its data set, its checks, and a small run."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bench.peers.agreement import _worst
from bench.peers.data import STEP_MS, import_lines, make, write_as_openmetrics
from bench.peers.pack import firings
from bench.peers.packages import Failure
from bench.peers.rows import EXPRESSIONS, NAMES, Row
from bench.peers.table import Timed
from engine.dataset.opening import open_data
from rules.promql.ast import ValueType
from rules.promql.parser import parse
from rules.promql.types import type_of

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "bench.peers", "--only-installed", "--hours", "1.5"]

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Prometheus is not installed (apt-get install prometheus)",
)


def test_the_data_set_is_the_same_every_time() -> None:
    first, second = make(30, 1), make(30, 1)
    for one, other in zip(
        first.counters + first.gauges, second.counters + second.gauges, strict=True
    ):
        assert one.labels == other.labels
        assert np.array_equal(one.timestamps_ms, other.timestamps_ms)
        assert np.array_equal(one.values, other.values)


def test_no_edge_of_a_window_falls_on_a_sample_and_half_of_the_series_have_times_of_their_own() -> (
    None
):
    data = make(160, 1)
    jittered = 0
    for series in data.counters + data.gauges:
        off = np.abs(series.timestamps_ms % STEP_MS - STEP_MS // 2)
        assert (off < STEP_MS // 2).all()
        assert (np.diff(series.timestamps_ms) > 0).all()
        jittered += bool(off.any())
    assert jittered == 160


def test_the_data_set_has_resets_and_gaps_and_its_values_are_read_alike_by_all() -> None:
    data = make(300, 3)
    assert any((np.diff(series.values) < 0).any() for series in data.counters)
    assert any((np.diff(series.timestamps_ms) > 30_000).any() for series in data.gauges)
    assert all((series.values == np.floor(series.values)).all() for series in data.counters)
    assert all((series.values == series.values.round(4)).all() for series in data.gauges)


def test_openmetrics_holds_every_millisecond_of_the_data_set(tmp_path: Path) -> None:
    data = make(10, 0.1)
    path = tmp_path / "data.om"
    write_as_openmetrics(data, path)
    read = {series.labels: series for series in open_data(str(path)).select((), 0, 2**60)}
    for series in data.counters + data.gauges:
        assert np.array_equal(read[series.labels].timestamps_ms, series.timestamps_ms)
        assert np.array_equal(read[series.labels].values, series.values)


def test_what_victoriametrics_imports_is_a_line_a_series() -> None:
    data = make(7, 0.1)
    assert [body.count(b"\n") + 1 for body in import_lines(data.counters, at_once=3)] == [3, 3, 1]


@pytest.mark.parametrize("row", EXPRESSIONS, ids=lambda row: row.name)
def test_every_row_is_an_expression_and_has_a_name(row: Row) -> None:
    assert row.name in NAMES
    for text in (row.checked, row.timed):
        assert type_of(parse(text)) is ValueType.VECTOR


@pytest.mark.parametrize(
    ("steps", "for_steps", "fired"),
    [
        ([1, 2, 3], 0, [1]),
        ([1, 2, 3], 2, [3]),
        ([1, 2, 3], 3, []),
        ([1, 2, 4, 5, 6], 2, [6]),
        ([1, 2, 3, 7, 8, 9], 1, [2, 8]),
    ],
)
def test_an_alert_fires_once_its_condition_has_held_for_long_enough(
    steps: list[int], for_steps: int, fired: list[int]
) -> None:
    times = np.array(steps, dtype=np.int64) * STEP_MS
    assert firings(times, for_steps * STEP_MS) == [step * STEP_MS for step in fired]


def test_results_that_differ_or_are_there_on_one_side_only_end_the_comparison() -> None:
    values, present = np.array([[1.0, 2.0, 0.0]]), np.array([[True, True, True]])
    assert _worst(values, present, values * (1 + 5e-10), present, "") == pytest.approx(5e-10)
    with pytest.raises(Failure, match=r"differ by 1\.00e-08"):
        _worst(values, present, values * (1 + 1e-8), present, "a row")
    with pytest.raises(Failure, match="differ by nan"):
        _worst(values, present, values * np.nan, present, "a row")
    with pytest.raises(Failure, match="step 2 is there on one side only"):
        _worst(values, present, values, np.array([[True, True, False]]), "a row")


def test_a_ratio_is_the_median_of_neighbours_and_says_when_the_goal_is_missed() -> None:
    timed = Timed("`x`", (1.0, 2.0, 4.0), (10.0, 22.0, 36.0), (), (10, 2))
    assert str(timed) == "| `x` | 1 s | 10 s | **10** (9 to 11) | ≥ 10 |  |  |  |"
    assert "≥ 12 missed" in str(Timed("`x`", (1.0,), (10.0,), (), (12, 2)))


@needs_prometheus
def test_a_small_run_agrees_with_prometheus_and_prints_a_line_for_each_row(tmp_path: Path) -> None:
    rows = "rate-5m,avg-1h,p99-5m,tasks-and,pack"
    done = subprocess.run(
        [*COMMAND, "--scale", "0.02", "--pairs", "1", "--rows", rows, "--folder", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for row in rows.split(",")[:-1]:
        assert f"{row}: " in done.stderr
    assert "the same at the same times in Prometheus" in done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len([line for line in table if "**" in line]) == 5
    assert not list(tmp_path.iterdir())


@needs_prometheus
def test_nothing_stays_behind_when_it_is_interrupted(tmp_path: Path) -> None:
    options = ["--scale", "0.02", "--pairs", "1000", "--folder", str(tmp_path), "--skip-check"]
    process = subprocess.Popen([*COMMAND, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "rate(" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())
    deadline = time.monotonic() + 10
    while _mention(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _mention(str(tmp_path))


def _mention(text: str) -> list[str]:
    """Processes that have a text in their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in line and "bench.peers" not in line:
            found.append(line)
    return found
