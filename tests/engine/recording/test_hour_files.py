"""Hours of a recording, read together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset.dataset import MemoryDataset, union
from engine.dataset.parquet_groups import GroupedFile
from engine.dataset.parquet_reading import read_parquet
from engine.labels import Labels
from engine.recording import open_recording
from engine.recording.importing import import_data
from engine.recording.reading import Recording
from engine.series import Series
from rules.promql.ast import Matcher
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HOUR_MS, START = 3_600_000, 1_767_225_600_000
METRICS = ("bytes_total", "step_seconds", "up")


def named(metric: str) -> tuple[Matcher, ...]:
    return (Matcher(Span(0, 0), "__name__", "=", metric),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    together = START + np.arange(0, 3 * HOUR_MS, 60_000)
    series = [
        Series(
            Labels.of(__name__=metric, rank=str(rank)),
            # Every second series has times of its own.
            together if rank % 2 == 0 else together + rng.integers(0, 1000, together.size),
            rng.normal(size=together.size),
        )
        for metric in METRICS
        for rank in range(4)
    ]
    path = tmp_path / "rec"
    import_data(MemoryDataset(union(series)), str(path))
    return path


@pytest.fixture
def groups_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    decoded: list[int] = []
    rows = GroupedFile.rows

    def counted(self: GroupedFile, group: int, *, alone: bool = True) -> object:
        decoded.append(group)
        return rows(self, group, alone=alone)

    monkeypatch.setattr(GroupedFile, "rows", counted)
    return decoded


def bits(series: Sequence[Series]) -> list[tuple[Labels, bytes, bytes]]:
    return [(one.labels, one.timestamps_ms.tobytes(), one.values.tobytes()) for one in series]


def test_hours_read_together_are_what_one_after_the_other_gives(folder: Path) -> None:
    files = [read_parquet(str(file)) for file in sorted(folder.glob("metrics-*"))]
    whole = union([one for file in files for one in file.series])
    recording = open_recording(str(folder))
    assert bits(recording.select((), START, START + 3 * HOUR_MS)) == bits(whole)
    for metric in METRICS:
        found = recording.select(named(metric), START, START + 3 * HOUR_MS)
        assert bits(found) == bits([one for one in whole if one.labels.name == metric])


def test_series_that_were_sampled_together_share_their_times_over_all_hours(folder: Path) -> None:
    found = open_recording(str(folder)).select(named("up"), START, START + 3 * HOUR_MS)
    assert found[0].timestamps_ms is found[2].timestamps_ms
    assert found[1].timestamps_ms is not found[3].timestamps_ms


def test_a_row_group_that_holds_several_metrics_is_decoded_once(
    folder: Path, groups_decoded: list[int]
) -> None:
    recording = open_recording(str(folder))
    for metric in (*METRICS, *METRICS):
        assert len(recording.select(named(metric), START, START + 3 * HOUR_MS)) == 4
    assert groups_decoded == [0, 0, 0]
    assert recording.series_count == 12


def test_the_next_stretch_of_time_reads_its_new_hours_only(
    folder: Path, groups_decoded: list[int]
) -> None:
    recording = open_recording(str(folder))
    for hour in range(3):
        recording.select(named("up"), START, START + (hour + 1) * HOUR_MS - 1)
    assert len(groups_decoded) == 3


def test_the_labels_of_hours_that_nobody_asked_for_are_counted_too(folder: Path) -> None:
    recording = open_recording(str(folder))
    recording.select(named("up"), START, START + HOUR_MS)
    assert recording.series_count == 12
    assert Recording(str(folder)).series_count == 12
