from __future__ import annotations

import os
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from engine.dataset import open_data
from engine.dataset.exposition import write_openmetrics
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, text: str | bytes, name: str = "data.prom") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def rows(path: str) -> dict[str, list[tuple[int, float]]]:
    return {
        str(one.labels): list(zip(one.timestamps_ms.tolist(), one.values.tolist(), strict=True))
        for one in open_data(path).select((), -(10**15), 10**15)
    }


def test_prometheus_text_has_milliseconds(tmp_path: Path) -> None:
    text = (
        "# HELP up Is it up.\n# TYPE up gauge\n\n"
        'up{job="a",instance="x:1",} 1 1700000000123\n'
        'up {job="a \\"q\\" \\\\ \\n }"} +Inf -5\n'
        "up 0x 5\n"
    ).replace("up 0x 5\n", "up 1e3 7\n")
    assert rows(written(tmp_path, text)) == {
        "up": [(7, 1000.0)],
        'up{instance="x:1", job="a"}': [(1_700_000_000_123, 1.0)],
        'up{job="a \\"q\\" \\\\ \\n }"}': [(-5, float("inf"))],
    }


def test_openmetrics_has_seconds_and_its_histograms_are_classic_series(tmp_path: Path) -> None:
    text = (
        "# TYPE h histogram\n"
        'h_bucket{le="1.0"} 1 1700000000.5 # {trace_id="a"} 0.5 1700000000\n'
        'h_bucket{le="+Inf"} 2 1700000000.5\nh_count 2 1700000000.5\nh_sum 3.5 1700000000.5\n'
        '{"odd.name",a="b"} 4 1700000000.5\n'
        "# EOF\n"
    )
    at = 1_700_000_000_500
    assert rows(written(tmp_path, text, "scrape.txt")) == {
        'h_bucket{le="+Inf"}': [(at, 2.0)],
        'h_bucket{le="1.0"}': [(at, 1.0)],
        "h_count": [(at, 2.0)],
        "h_sum": [(at, 3.5)],
        '{"odd.name", a="b"}': [(at, 4.0)],
    }


BROKEN: list[tuple[str, str | bytes, str, str]] = [
    ("data.prom", "up 1\n", "data.prom:1: the sample has no timestamp", "scrape"),
    ("data.prom", "up 1 5\nup fast 6\n", "data.prom:2: cannot read the value 'fast'", "number"),
    ("data.prom", "up 1 soon\n", "data.prom:1: cannot read the timestamp 'soon'", "number"),
    ("data.prom", "up 1 NaN\n", "data.prom:1: cannot read the timestamp 'NaN'", "number"),
    ("data.prom", "up 1e400 5\n", "data.prom:1: cannot read the value '1e400'", "Inf"),
    ("data.om", "up 1 1700000000000\n# EOF\n", "data.om:1: cannot read the timestamp", "seconds"),
    ("data.prom", "up 1 5.5\n", "data.prom:1: the timestamp '5.5' is not a whole number", "EOF"),
    ("data.prom", 'up{a="b} 1 5\n', "data.prom:1: is no sample", "expected"),
    ("data.prom", "up{a=b} 1 5\n", "data.prom:1: cannot read the labels {a=b}", "expected"),
    ("data.prom", 'up{a="b",a="c"} 1 5\n', "data.prom:1: the label 'a' appears twice", "remove"),
    ("data.prom", '{a="b"} 1 5\n', "data.prom:1: the sample has no metric name", "expected"),
    ("data.prom", b'up 1 5\nup{a="\xff"} 1 5\n', "data.prom:2: is not UTF-8 text", "iconv"),
    ("data.prom", "# TYPE up gauge\n", "data.prom: holds no samples", "lines like"),
    ("data.om", "up 1 5\n", "data.om: does not end with '# EOF'", "cut short"),
    ("data.om", "up 1 5\n# EOF\nup 1 6\n", "data.om:3: there is text after '# EOF'", "ends a file"),
    ("data.bin", b"\0\1\2", "data.bin: is binary data of no known form", "expected a recording"),
    ("data.gz", b"\x1f\x8b\0", "data.gz: is compressed (gzip)", "unpack"),
    ("notes.md", "hello", "notes.md: is of no known form", "Parquet or CSV"),
    ("data.parquet", b"PAR1 and not more", "data.parquet: is not readable as Parquet", "complete"),
    ("data.parquet", b"", "data.parquet: is empty", "expected"),
    ("absent/", b"", "absent: holds no data", "expected"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message", "hint"), BROKEN)
def test_a_broken_file_gives_one_located_error(
    tmp_path: Path, name: str, text: str | bytes, message: str, hint: str
) -> None:
    if name.endswith("/"):
        (tmp_path / name).mkdir()
        path = str(tmp_path / name.rstrip("/"))
    else:
        path = written(tmp_path, text, name)
    with pytest.raises(StallwatchError) as caught:
        open_data(path)
    shown = str(caught.value).replace(f"{tmp_path}/", "")
    assert shown.startswith(message)
    assert hint in shown.partition("\n    hint: ")[2]


def test_a_folder_of_files_is_one_dataset(tmp_path: Path) -> None:
    written(tmp_path, "up 1 5\n")
    written(tmp_path, "timestamp,__name__,value\n6,up,2\n5,down,1\n", "more.csv")
    assert rows(str(tmp_path)) == {"up": [(5, 1.0), (6, 2.0)], "down": [(5, 1.0)]}
    written(tmp_path, "timestamp,__name__,value\n5,up,2\n", "wrong.csv")
    (notice,) = open_data(str(tmp_path)).notices
    assert notice.startswith(f"{tmp_path}: up has another value at a timestamp that it has already")
    assert rows(str(tmp_path))["up"] == [(5, 1.0), (6, 2.0)]


def test_the_line_of_a_second_value_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "up 1 5\n\nup 2 5\n")
    (notice,) = open_data(path).notices
    assert notice.startswith(f"{path}:3: up has another value")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.csv")
    with pytest.raises(StallwatchError, match=r"data\.csv: is a pipe"):
        open_data(str(tmp_path / "data.csv"))


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(StallwatchError, match="the path is empty"):
        open_data("")


def test_native_histograms_and_start_timestamps_are_kept_and_written_again(tmp_path: Path) -> None:
    text = (
        'lat{a="b"} {count:2,sum:1.5,schema:0,zero_threshold:0,zero_count:0,positive_spans:[0:1],'
        "positive_buckets:[2]} 10 st@3\n"
        'lat{a="b"} 7.0 20\n'
        'steps_total 5.0 10.5 st@2.25 # {trace="1"} 1 2\n'
        "steps_total 6.0 20.5 st@2.25\n"
        "up 1.0 10\n"
        "# EOF\n"
    )
    lat, steps, up = open_data(written(tmp_path, text, "data.om")).select((), 0, 10**9)
    assert lat.histograms is not None
    shown = "{{count:2 sum:1.5 schema:0 z_bucket:0 z_bucket_w:0 buckets:[2]}}"
    assert lat.histograms.tolist() == [shown, None]
    assert lat.starts_ms is not None
    assert lat.starts_ms.tolist() == [3_000, 0]
    assert steps.histograms is None
    assert steps.starts_ms is not None
    assert steps.starts_ms.tolist() == [2_250, 2_250]
    assert up.is_plain
    again = StringIO()
    write_openmetrics(again, [lat, steps, up])
    assert again.getvalue() == text.replace(' # {trace="1"} 1 2', "")


def test_files_of_one_folder_keep_what_their_samples_have(tmp_path: Path) -> None:
    written(tmp_path, "a_total 5 10 st@2\nlat {count:2,sum:1} 10\n# EOF\n", "1.om")
    written(tmp_path, "a_total 6 20 st@2\nlat 3 20\n# EOF\n", "2.om")
    a_total, lat = open_data(str(tmp_path)).select((), 0, 10**9)
    assert a_total.starts_ms is not None
    assert a_total.starts_ms.tolist() == [2_000, 2_000]
    assert lat.histograms is not None
    assert lat.histograms.tolist() == ["{{count:2 sum:1}}", None]


CREATED = """\
# TYPE steps counter
steps_total{rank="0"} 5 100
steps_created{rank="0"} 40.25 100
steps_total{rank="0"} 2 120
steps_created{rank="0"} 110 120
steps_total{rank="1"} 7 100
# TYPE wait_seconds histogram
wait_seconds_bucket{le="1"} 1 100
wait_seconds_bucket{le="+Inf"} 2 100
wait_seconds_count 2 100
wait_seconds_sum 3 100
wait_seconds_created 50 100
# TYPE call summary
call{quantile="0.5"} 1 100
call_created 60 100
# TYPE up gauge
up 1 100
up_created 70 100
# TYPE "a b" counter
{"a b_total"} 1 100
{"a b_created"} 30 100
lone_created 80 100
# EOF
"""


def test_created_lines_are_start_timestamps_where_asked(tmp_path: Path) -> None:
    path = written(tmp_path, CREATED, "data.om")
    found = open_data(path, created=True).select((), 0, 10**9)
    starts = {str(s.labels): None if s.starts_ms is None else s.starts_ms.tolist() for s in found}
    assert starts == {
        '{"a b_total"}': [30_000],
        'call{quantile="0.5"}': [60_000],
        "lone_created": None,
        'steps_total{rank="0"}': [40_250, 110_000],
        'steps_total{rank="1"}': None,
        "up": None,
        "up_created": None,
        'wait_seconds_bucket{le="+Inf"}': [50_000],
        'wait_seconds_bucket{le="1"}': [50_000],
        "wait_seconds_count": [50_000],
        "wait_seconds_sum": [50_000],
    }


def test_created_lines_are_series_like_any_other_by_default(tmp_path: Path) -> None:
    found = open_data(written(tmp_path, CREATED, "data.om")).select((), 0, 10**9)
    assert len(found) == 15
    assert all(one.is_plain for one in found)


def test_created_lines_of_prometheus_text_stay_series(tmp_path: Path) -> None:
    text = "# TYPE a counter\na_total 1 100000000000\na_created 5 100000000000\n"
    found = open_data(written(tmp_path, text, "data.prom"), created=True).select((), 0, 10**15)
    assert [one.labels.name for one in found] == ["a_created", "a_total"]


def test_a_created_line_that_is_no_time_says_nothing(tmp_path: Path) -> None:
    text = "# TYPE a counter\na_total 1 100\na_created NaN 100\n# EOF\n"
    (series,) = open_data(written(tmp_path, text, "d.om"), created=True).select((), 0, 10**9)
    assert series.is_plain
