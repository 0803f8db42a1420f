from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset import csv_form, open_data
from engine.labels import Labels
from engine.series import stale_mask
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, text: str | bytes) -> str:
    path = folder / "data.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_every_other_column_is_a_label_and_rows_may_come_in_any_order(tmp_path: Path) -> None:
    data = open_data(
        written(
            tmp_path,
            "timestamp,__name__,value,rank,comm\n"
            "2000,up,2,0,\n"
            '1000,up,1,0,\n1000,up,5,1,"a,""b"""\n',
        )
    )
    first, second = data.select((), 0, 10_000)
    assert first.labels == Labels.of(__name__="up", comm='a,"b"', rank="1")
    assert second.labels == Labels.of(__name__="up", rank="0")
    assert second.timestamps_ms.tolist() == [1000, 2000]
    assert second.values.tolist() == [1.0, 2.0]
    assert (data.start_ms, data.end_ms, data.series_count) == (1000, 2000, 2)
    assert list(data.notices) == []


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("1.7e12", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
    ],
)
def test_a_timestamp_is_unix_ms_or_rfc_3339_or_naive(
    tmp_path: Path, text: str, time_ms: int
) -> None:
    data = open_data(written(tmp_path, f"timestamp,value\n{text},1\n"))
    assert data.start_ms == time_ms
    naive = " " in text
    assert bool(data.notices) == naive
    (series,) = data.select((), 0, 10**15)
    assert series.labels == Labels.of(__name__="value")


def test_values_keep_every_bit(tmp_path: Path) -> None:
    spelled = ["stale", "NaN", "+Inf", "-Inf", "-0.0", "1e-320", "0.1", "NaN(0x7ff8000000000001)"]
    rows = "".join(f"{i},{text}\n" for i, text in enumerate(spelled))
    (series,) = open_data(written(tmp_path, "timestamp,value\n" + rows)).select((), 0, 100)
    assert stale_mask(series.values).tolist() == [True] + [False] * 7
    expected = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-320, 0.1])
    assert series.values[1:7].tobytes() == expected.tobytes()
    assert int(series.values.view(np.uint64)[7]) == 0x7FF8000000000001


def test_an_exact_repetition_is_left_out_with_a_notice(tmp_path: Path) -> None:
    data = open_data(written(tmp_path, "timestamp,value\n1,1\n1,1\n"))
    assert list(data.notices) == ["1 rows that repeat a sample exactly are left out"]


def test_a_second_value_at_one_time_is_left_out_as_the_live_window_does(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp,value\n1,1\n2,5\n1,2\n1,1\n2,6\n")
    data = open_data(path)
    (series,) = data.select((), 0, 10)
    assert series.values.tolist() == [1, 5]
    other, same = data.notices
    assert other.startswith(f"{path}:4: value has another value at a timestamp that it has already")
    assert other.endswith("the first is kept, 2 in all left out")
    assert same == "1 rows that repeat a sample exactly are left out"


def test_seconds_are_suspected(tmp_path: Path) -> None:
    (notice,) = open_data(written(tmp_path, "timestamp,value\n1700000000,1\n")).notices
    assert "look like unix seconds" in notice


BROKEN: list[tuple[str | bytes, str, str]] = [
    ("", "data.csv: is empty", "expected"),
    ("timestamp,value\n", "data.csv: holds a header and no samples", "rows"),
    (
        "timestamp,v\n1,1\n",
        "data.csv:1: there is no column 'value' (columns: timestamp, v)",
        "long",
    ),
    ("time,value\n1,1\n", "data.csv:1: there is no column 'timestamp'", "long form"),
    ("timestamp,value,a,a\n1,1,x,y\n", "data.csv:1: column 'a' appears twice", "rename"),
    ("timestamp,value,\n1,1,x\n", "data.csv:1: a column has no name", "name"),
    ("timestamp,value\n1,1\nnever,1\n", "data.csv:3: cannot read the timestamp 'never'", "RFC"),
    ("timestamp,value\nNaN,1\n", "data.csv:2: cannot read the timestamp 'NaN'", "RFC"),
    ("timestamp,value\n,1\n", "data.csv:2: cannot read the timestamp ''", "RFC"),
    ("timestamp,value\n2023-13-01T00:00:00Z,1\n", "data.csv:2: cannot read the timestamp", "RFC"),
    ("timestamp,value\n1e300,1\n", "data.csv:2: cannot read the timestamp '1e300'", "RFC"),
    ("timestamp,value\n1700000000000000,1\n", "data.csv:2: cannot read the timestamp '17", "9999"),
    ("timestamp,value\n1e15,1\n", "data.csv:2: cannot read the timestamp '1e15'", "9999"),
    ("timestamp,value\n1,1e400\n", "data.csv:2: cannot read the value '1e400'", "Inf"),
    ("timestamp,value\n1,1\n2,fast\n", "data.csv:3: cannot read the value 'fast'", "stale"),
    ("timestamp,value\n1,\n", "data.csv:2: cannot read the value ''", "stale"),
    ("timestamp,value\n1,1_0\n", "data.csv:2: cannot read the value '1_0'", "stale"),
    (
        "timestamp,value,a\n1,1,x\n2,1\n",
        "data.csv:3: the row has 2 fields, the header has 3",
        "cut",
    ),
    (
        "timestamp,value\n1,1,x\n2,2\n",
        "data.csv:2: the row has 3 fields, the header has 2",
        "quote",
    ),
    ('timestamp,value,a\n1,1,"x\n', "data.csv:2: a quoted field is not closed", "cut short"),
    ('timestamp,value,a\n1,1,"x\ny"\n\n1,z,b\n', "data.csv:5: cannot read the value 'z'", "stale"),
    (b"timestamp,value,a\n1,1,\xff\n", "data.csv:2: is not UTF-8 text", "iconv"),
]


@pytest.mark.parametrize(("text", "message", "hint"), BROKEN)
def test_a_broken_file_gives_one_located_error(
    tmp_path: Path, text: str | bytes, message: str, hint: str
) -> None:
    with pytest.raises(StallwatchError) as caught:
        open_data(written(tmp_path, text))
    shown = str(caught.value).replace(f"{tmp_path}/", "")
    assert shown.startswith(message)
    assert hint in shown.partition("\n    hint: ")[2]


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_may_be_longer_than_pythons_reader_takes_by_itself(
    tmp_path: Path, quote: str
) -> None:
    text = "x" * 200_000
    data = open_data(written(tmp_path, f"timestamp,value,a\n1,1,{quote}{text}{quote}\n"))
    (series,) = data.select((), 0, 10)
    assert series.labels.get("a") == text


def test_a_field_that_is_too_long_is_told_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_form, "LONGEST_FIELD", 1_000)
    path = written(tmp_path, 'timestamp,value,a\n1,1,"' + "x" * 1_001 + '"\n')
    with pytest.raises(StallwatchError) as caught:
        open_data(path)
    shown = str(caught.value).replace(f"{tmp_path}/", "")
    assert shown.startswith("data.csv:2: a field has more than 1,000 characters\n")
    assert "is a quote not closed?" in shown
