"""Data opened for a few metrics: the others are not read, and count all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset import MemoryDataset, open_data
from engine.dataset.parquet_form import write_parquet
from engine.labels import Labels
from engine.series import Series
from rules.promql.ast import Matcher
from rules.source import Span

if TYPE_CHECKING:
    from pathlib import Path

EVER = 1 << 60
START = 1_767_225_600_000


def ramp(name: str, rank: int, start_ms: int) -> Series:
    times = start_ms + 10_000 * np.arange(1000)
    return Series(Labels.of(__name__=name, rank=str(rank)), times, np.arange(1000.0) + rank)


SERIES = [ramp("aa", 0, START - 70_000), *(ramp("up", rank, START) for rank in range(3))]
LATE = ramp("zz", 0, START + 50_000)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("engine.dataset.parquet_form._GROUP_ROWS", 1000)
    path = str(tmp_path / "data.parquet")
    write_parquet(path, SERIES, [LATE])
    return path


def asked(path: str, *names: str) -> MemoryDataset:
    found = open_data(path, names=frozenset(names))
    assert isinstance(found, MemoryDataset)
    return found


def test_what_was_asked_for_is_read_and_everything_is_counted(path: str) -> None:
    data = asked(path, "up")
    assert [one.labels.name for one in (*data.series, *data.derived)] == ["up"] * 3 + ["zz"]
    whole = open_data(path)
    for some, every in ((data, whole), (data.with_derived(), whole.with_derived())):
        assert some.start_ms == every.start_ms
        assert some.end_ms == every.end_ms
        assert some.series_count == every.series_count
    up = (Matcher(Span(0, 0), "__name__", "=", "up"),)
    for one, other in zip(data.select(up, 0, EVER), whole.select(up, 0, EVER), strict=True):
        assert one.labels == other.labels
        assert one.values.tolist() == other.values.tolist()


def test_a_file_without_any_of_the_metrics_is_read_as_a_whole(path: str) -> None:
    assert {one.labels.name for one in asked(path, "nothing").series} == {"aa", "up"}


def test_the_files_of_a_folder_are_counted_together(path: str, tmp_path: Path) -> None:
    write_parquet(str(tmp_path / "other.parquet"), [ramp("up", 7, START), ramp("bb", 0, START)])
    data = asked(str(tmp_path), "up")
    assert data.series_count == open_data(str(tmp_path)).series_count == 6
