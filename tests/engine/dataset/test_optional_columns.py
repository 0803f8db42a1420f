"""Start timestamps and native histograms in long form: read, kept, and told where wrong."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.cli.main import main
from engine.dataset import open_data
from engine.dataset.csv_writing import write_csv
from engine.dataset.parquet_form import write_parquet
from engine.labels import Labels
from engine.series import STALE_NAN, Series, stale_mask
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

    from engine.dataset import Dataset

T = 1_700_000_000_000
ONE = "{{schema:0 count:5 sum:3 buckets:[1 2 2]}}"
TWO = "{{schema:-53 count:6 sum:4 custom_values:[1 2.5] buckets:[1 2 3]}}"
EVER = 1 << 60


def data() -> list[Series]:
    times = np.array([T, T + 10_000, T + 20_000])
    texts = np.array([ONE, None, TWO], dtype=np.object_)
    return [
        Series(Labels.of(__name__="mixed"), times, np.array([np.nan, 2.0, np.nan]), texts),
        Series(Labels.of(__name__="plain", rank="0"), times, np.array([1.0, np.nan, STALE_NAN])),
        Series(
            Labels.of(__name__="total", rank="0"),
            times,
            np.array([5.0, STALE_NAN, 7.0]),
            None,
            np.array([T - 5, 0, T + 15_000]),
        ),
    ]


def content(series: list[Series] | tuple[Series, ...]) -> list[tuple[Any, ...]]:
    return [
        (
            str(one.labels),
            one.timestamps_ms.tolist(),
            np.ascontiguousarray(one.values).view(np.uint64).tolist(),
            None if one.histograms is None else one.histograms.tolist(),
            None if one.starts_ms is None else one.starts_ms.tolist(),
        )
        for one in series
    ]


def everything(found: Dataset) -> list[tuple[Any, ...]]:
    return content(found.select((), -EVER, EVER))


def write(path: Path, series: list[Series], derived: list[Series] | None = None) -> str:
    if path.suffix == ".parquet":
        write_parquet(str(path), series, derived or [])
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, series, derived or [])
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read_back(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"a.{ending}", data()[1:], data()[:1])
    found = open_data(path)
    assert everything(found) == content(data()[1:])
    assert content(found.select_derived((), -EVER, EVER)) == content(data()[:1])
    assert everything(found.with_derived()) == content(data())


def test_import_and_export_keep_them_on_every_way(tmp_path: Path) -> None:
    csv = write(tmp_path / "a.csv", data()[1:], data()[:1])
    ways = (
        ["import", csv, "--out", f"{tmp_path}/rec"],
        ["import", f"{tmp_path}/rec", "--out", f"{tmp_path}/again"],
        ["export", f"{tmp_path}/again", "--out", f"{tmp_path}/b.parquet"],
        ["import", f"{tmp_path}/b.parquet", "--out", f"{tmp_path}/third"],
        ["export", f"{tmp_path}/third", "--out", f"{tmp_path}/c.csv"],
    )
    for arguments in ways:
        assert main(arguments) == 0
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
    for place in ("rec", "again", "third"):
        assert everything(open_data(str(tmp_path / place)).with_derived()) == content(data())


def test_a_folder_of_files_keeps_them(tmp_path: Path) -> None:
    cut = [one.picked(slice(0, 2)) for one in data()]
    write(tmp_path / "a.csv", cut)
    write(tmp_path / "b.parquet", [one.picked(slice(1, 3)) for one in data()])
    found = open_data(str(tmp_path))
    assert everything(found) == content(data())
    assert list(found.notices) == ["3 rows that repeat a sample exactly are left out"]


def test_rows_in_any_order_keep_theirs(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, data())
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows[::-1]]))
    assert everything(open_data(str(path))) == content(data())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_has_the_columns_only_where_a_sample_needs_them(tmp_path: Path, ending: str) -> None:
    def columns(series: list[Series]) -> set[str]:
        path = write(tmp_path / f"a.{ending}", series)
        if ending == "csv":
            return set((tmp_path / "a.csv").read_text().splitlines()[0].split(","))
        return set(pq.read_schema(path).names)

    usual = {"timestamp", "value", "__name__"}
    histograms, plain, started = data()
    assert columns([plain]) == {*usual, "rank"}
    assert columns([started]) == {*usual, "rank", "start_timestamp"}
    assert columns([histograms]) == {*usual, "histogram"}


def test_csv_spells_them_like_this(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, data()[:1] + data()[2:])
    assert path.read_text().splitlines()[:5] == [
        "timestamp,__name__,value,start_timestamp,histogram,rank",
        f"{T},mixed,,,{ONE},",
        f"{T + 10_000},mixed,2.0,,,",
        f"{T + 20_000},mixed,,,{TWO},",
        f"{T},total,5.0,{T - 5},,0",
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_label_with_the_name_of_a_column_is_told_from_it(tmp_path: Path, ending: str) -> None:
    labels = Labels({"__name__": "m", "histogram": "h", "start_timestamp": "s"})
    series = [one.relabelled(labels) for one in data()[:1]]
    assert everything(open_data(write(tmp_path / f"a.{ending}", series))) == content(series)


STARTS = [
    pa.array([None, T - 5]),
    pa.array([np.nan, T - 5.0]),
    pa.array([0, T - 5]),
    pa.array([None, dt.datetime(2023, 11, 14, 22, 13, 19, 995_000, dt.timezone.utc)]),
    pa.array([None, "2023-11-14T22:13:19.995Z"]),
    pa.array(["", str(T - 5)]),
]


@pytest.mark.parametrize("column", STARTS)
def test_a_start_has_the_forms_of_a_timestamp(tmp_path: Path, column: Any) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"timestamp": [T, T + 1], "value": [1, 2], "start_timestamp": column}), path
    )
    (series,) = open_data(path).select((), 0, EVER)
    assert series.starts_ms is not None
    assert series.starts_ms.tolist() == [0, T - 5]


@pytest.mark.parametrize("value", [[None, 2.0], [np.nan, 2.0], ["", "2"], [None, "2"], [None, 2]])
@pytest.mark.parametrize("encoded", [True, False])
def test_the_value_beside_a_histogram_may_be_nothing(
    tmp_path: Path, value: list[Any], *, encoded: bool
) -> None:
    texts = pa.array([ONE, None])
    path = str(tmp_path / "a.parquet")
    table = {
        "timestamp": [T, T + 1],
        "value": pa.array(value, from_pandas=False),
        "histogram": texts.dictionary_encode() if encoded else texts,
    }
    pq.write_table(pa.table(table), path)
    (series,) = open_data(path).select((), 0, EVER)
    assert series.histograms is not None
    assert series.histograms.tolist() == [ONE, None]
    assert np.isnan(series.values[0])
    assert not stale_mask(series.values).any()
    assert series.values[1] == 2


@pytest.mark.parametrize("nothing", [pa.nulls(2), pa.array(["", ""]), pa.array(["", None])])
def test_columns_that_are_empty_are_as_good_as_none(tmp_path: Path, nothing: Any) -> None:
    path = str(tmp_path / "a.parquet")
    columns = {"start_timestamp": nothing, "histogram": nothing}
    pq.write_table(pa.table({"timestamp": [T, T + 1], "value": [1, 2], **columns}), path)
    (series,) = open_data(path).select((), 0, EVER)
    assert series.is_plain


CSV: list[tuple[str, str, str]] = [
    ("1,2,soon,", "a.csv:2: cannot read the start_timestamp 'soon'", "label.start_timestamp"),
    ("1,2,1e300,", "a.csv:2: cannot read the start_timestamp '1e300'", "label.start_timestamp"),
    ("1,2,,\n3,,,wide", "a.csv:3: cannot read the histogram: 'wide' is no native", "label.histogr"),
    ("1,,,{{sum:x}}", "a.csv:2: cannot read the histogram: not a number", "{{schema:0 count:5"),
    ("1,,,{{width:1}}", "a.csv:2: cannot read the histogram: a native histogram has no 'wi", "{{"),
    ("1,2,,{{}}", "a.csv:2: there is a value, '2', beside a histogram", "leave one of the two out"),
    ("1,stall,,{{}}", "a.csv:2: cannot read the value 'stall'", "a number"),
    ("1,,,", "a.csv:2: cannot read the value ''", "a number"),
]


@pytest.mark.parametrize(("rows", "message", "hint"), CSV)
def test_a_wrong_field_of_csv_gives_one_located_error(
    tmp_path: Path, rows: str, message: str, hint: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"timestamp,value,start_timestamp,histogram\n{rows}\n")
    with pytest.raises(StallwatchError) as caught:
        open_data(str(path))
    shown = str(caught.value).replace(f"{tmp_path}/", "")
    assert shown.startswith(message)
    assert hint in shown.partition("\n    hint: ")[2]


PARQUET: list[tuple[dict[str, Any], str]] = [
    ({"start_timestamp": ["", "soon"]}, "a.parquet: row 2: cannot read the start_timestamp 'soon'"),
    ({"start_timestamp": [0, 1 << 60]}, "a.parquet: row 2: cannot read the start_timestamp 1152"),
    ({"start_timestamp": [0.0, 1e300]}, "a.parquet: row 2: cannot read the start_timestamp 1e+30"),
    ({"start_timestamp": [True, None]}, "a.parquet: the column start_timestamp is of type bool"),
    ({"start_timestamp": [[1], None]}, "a.parquet: the column start_timestamp is of type list"),
    ({"histogram": [1, 2]}, "a.parquet: the column histogram is of type int64"),
    ({"histogram": [[1], [2]]}, "a.parquet: the column histogram is of type list"),
    ({"histogram": ["", "wide"]}, "a.parquet: row 2: cannot read the histogram: 'wide' is no nat"),
    ({"histogram": ["", ONE]}, "a.parquet: row 2: there is a value, 2.0, beside a histogram"),
    ({"histogram": [ONE, ""], "value": [None, None]}, "a.parquet: row 2: the value is missing"),
    ({"histogram": [ONE, ""], "value": ["", "x"]}, "a.parquet: row 2: cannot read the value 'x'"),
    ({"histogram": [ONE, ""], "value": [True, None]}, "a.parquet: row 2: the value is missing"),
]


@pytest.mark.parametrize(("columns", "message"), PARQUET)
def test_a_wrong_column_of_parquet_gives_one_located_error(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"timestamp": [1, 2], "value": [np.nan, 2.0], **columns}), path)
    with pytest.raises(StallwatchError) as caught:
        open_data(path)
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(message)


def test_two_histograms_at_one_time_are_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"timestamp,value,histogram\n1,,{ONE}\n1,,{ONE}\n1,,{TWO}\n1,3,\n")
    found = open_data(str(path))
    (series,) = found.select((), 0, 10)
    assert series.histograms is not None
    assert series.histograms.tolist() == [ONE]
    conflict, copies = found.notices
    assert conflict.startswith(f"{path}:4: value has another value at a timestamp")
    assert copies == "1 rows that repeat a sample exactly are left out"
