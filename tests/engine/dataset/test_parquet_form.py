from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.dataset import open_data
from engine.dataset.parquet_form import write_parquet
from engine.dataset.parquet_reading import read_parquet
from engine.labels import Labels
from engine.series import STALE_NAN, Series, stale_mask
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

START = 1_700_000_000_000
MOMENT = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.timezone.utc)


def written(folder: Path, **columns: Any) -> str:
    path = str(folder / "data.parquet")
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("timestamp", "notice"),
    [
        (pa.array([START]), ""),
        (pa.array([START], pa.float64()), ""),
        (pa.array([MOMENT], pa.timestamp("us", tz="UTC")), ""),
        (pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("ns")), "read as UTC"),
        (pa.array(["2023-11-14T22:13:20Z"]), ""),
        (pa.array(["2023-11-14 22:13:20"]), "read as UTC"),
        (pa.array([START // 1000]), "look like unix seconds"),
    ],
)
def test_a_timestamp_column_may_be_a_number_a_timestamp_or_text(
    tmp_path: Path, timestamp: Any, notice: str
) -> None:
    data = open_data(written(tmp_path, timestamp=timestamp, value=[1.5]))
    assert data.start_ms in {START, START // 1000}
    assert notice in " ".join(data.notices)
    assert bool(data.notices) == bool(notice)


def test_labels_may_be_numbers_and_missing_ones_are_absent(tmp_path: Path) -> None:
    data = open_data(
        written(tmp_path, timestamp=[5, 5], value=[1, 2], rank=[0, None], __name__=["up", "up"])
    )
    found = [str(one.labels) for one in data.select((), 0, 10)]
    assert found == ["up", 'up{rank="0"}']


def test_only_the_row_groups_that_may_hold_a_metric_are_read(tmp_path: Path) -> None:
    times = np.arange(200_000)
    values = times.astype(np.float64)
    series = [Series(Labels.of(__name__=name), times, values) for name in "abcd"]
    path = str(tmp_path / "big.parquet")
    write_parquet(path, series)
    assert pq.ParquetFile(path).num_row_groups == 2
    assert {one.labels.name for one in read_parquet(path, frozenset({"d"})).series} == {"c", "d"}
    assert {one.labels.name for one in read_parquet(path).series} == set("abcd")


def test_the_staleness_marker_survives_and_an_ordinary_nan_stays_one(tmp_path: Path) -> None:
    values = np.array([float(STALE_NAN), np.nan, float(STALE_NAN), 1.0])
    path = str(tmp_path / "stale.parquet")
    write_parquet(path, [Series(Labels.of(__name__="a"), np.arange(4), values)])
    (series,) = open_data(path).select((), 0, 10)
    assert stale_mask(series.values).tolist() == [True, False, True, False]
    assert np.isnan(series.values[1])


NONE = pa.array([], pa.int64())
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"value": [1.0]}, "data.parquet: there is no column 'timestamp' (columns: value)"),
    ({"timestamp": [5], "v": [1.0]}, "data.parquet: there is no column 'value'"),
    ({"timestamp": [5, None], "value": [1.0, 2.0]}, "data.parquet: row 2: the timestamp is miss"),
    ({"timestamp": [5, 6], "value": [1.0, None]}, "data.parquet: row 2: the value is missing"),
    ({"timestamp": [5.0, np.nan], "value": [1.0, 2.0]}, "data.parquet: row 2: cannot read the tim"),
    ({"timestamp": ["soon"], "value": [1.0]}, "data.parquet: row 1: cannot read the timestamp 'so"),
    ({"timestamp": [True], "value": [1.0]}, "data.parquet: the column timestamp is of type bool"),
    ({"timestamp": [5], "value": [True]}, "data.parquet: the column value is of type bool"),
    ({"timestamp": [5], "value": ["fast"]}, "data.parquet: row 1: cannot read the value 'fast'"),
    ({"timestamp": [5], "value": [1.0], "a": [[1]]}, "data.parquet: the column 'a' is of type"),
    ({"timestamp": NONE, "value": NONE}, "data.parquet: holds no samples"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "message"), BROKEN)
def test_a_broken_table_gives_one_located_error(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, **columns)
    with pytest.raises(StallwatchError) as caught:
        open_data(path)
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(message)


def test_public_series_open_and_tables_of_another_form_are_refused(shared: Path) -> None:
    cases = shared / "cases"
    for path in sorted((cases / "nab" / "data").glob("*/*.csv")):
        data = open_data(str(path))
        assert data.series_count == 1
        assert data.notices
    for path in sorted((cases / "straggler").iterdir()):
        with pytest.raises(StallwatchError, match="there is no column 'timestamp'"):
            open_data(str(path))
