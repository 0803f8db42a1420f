"""Snapshots of baselines beside the hours of a recording: kept as long as they are gone on from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.dataset import MemoryDataset
from engine.flush import Flush
from engine.labels import Labels
from engine.recording import Keep, Recorder, Retention, open_recording
from engine.recording.importing import import_data
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR = 3_600_000
START = 1_700_000_000_000 - 1_700_000_000_000 % HOUR
LOAD = (Labels.of(__name__="load"),)


def record(folder: Path, hours: Sequence[int], retention: Retention | None = None) -> Recorder:
    """An hour's only sample at its begin, and a snapshot at its end."""
    recorder = Recorder(str(folder), retention=retention)
    for hour in hours:
        recorder.write(Flush(START + hour * HOUR, LOAD, np.ones(1), ()))
        assert recorder.write_snapshot(START + (hour + 1) * HOUR - 1, b"learnt")
    return recorder


def hours_of(folder: Path) -> list[int]:
    return [(time_ms + 1 - START) // HOUR for time_ms, _ in open_recording(str(folder)).snapshots()]


def test_they_are_read_back_by_time(tmp_path: Path) -> None:
    record(tmp_path, [0, 1]).close()
    (first, path), _ = open_recording(str(tmp_path)).snapshots()
    assert first == START + HOUR - 1
    assert Path(path).read_bytes() == b"learnt"
    Path(path).unlink()
    assert hours_of(tmp_path) == [2]


def test_of_those_before_the_data_the_newest_is_kept(tmp_path: Path) -> None:
    """What is left of the data is folded on from it, as it was live."""
    keep = Retention(metrics=Keep(4 * HOUR, 1 << 30))
    record(tmp_path, range(10), keep).close()
    recording = open_recording(str(tmp_path))
    first = (recording.start_ms - START) // HOUR
    assert first > 2
    assert hours_of(tmp_path) == list(range(first, 11))


def test_they_are_bounded_in_bytes_and_the_newest_stays(tmp_path: Path) -> None:
    keep = Retention(log=Keep(99 * HOUR, 15))
    record(tmp_path, range(6), keep).close()
    assert hours_of(tmp_path) == [5, 6]
    Recorder(str(tmp_path), retention=Retention(log=Keep(99 * HOUR, 1))).close()
    assert hours_of(tmp_path) == [6]


def test_data_that_come_in_later_make_those_after_them_untrue(tmp_path: Path) -> None:
    record(tmp_path, [0, 1, 5]).close()
    times = np.array([START + 2 * HOUR], dtype=np.int64)
    more = MemoryDataset((Series(Labels.of(__name__="more"), times, np.ones(1)),))
    import_data(more, str(tmp_path))
    assert hours_of(tmp_path) == [1, 2]


def test_one_that_cannot_be_written_is_counted_and_the_agent_goes_on(tmp_path: Path) -> None:
    recorder = record(tmp_path, [0])
    time_ms = START + 2 * HOUR + HOUR - 1
    blocked = tmp_path / f"{recorder_name(time_ms)}.tmp"
    blocked.mkdir()
    assert not recorder.write_snapshot(time_ms, b"learnt")
    assert recorder.write_failures_total == 1
    blocked.rmdir()
    recorder.close()
    assert hours_of(tmp_path) == [1]


def recorder_name(time_ms: int) -> str:
    return f"baselines-{np.datetime64(time_ms // 1000, 's').item():%Y%m%dT%H%M%S}.swb"


def test_how_baselines_learn_is_in_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    assert open_recording(str(tmp_path)).baselines is None
    recorder.log_baselines({"resolution_ms": 10_000}, START)
    recorder.log_baselines({"resolution_ms": 60_000}, START + HOUR)
    recorder.close()
    found = open_recording(str(tmp_path)).baselines
    assert found is not None
    assert found["resolution_ms"] == 60_000
