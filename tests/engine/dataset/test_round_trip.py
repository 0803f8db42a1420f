"""Every form gives back what was written: labels, times, and values bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset import open_data
from engine.dataset.csv_writing import write_csv
from engine.dataset.exposition import write_openmetrics
from engine.dataset.parquet_form import write_parquet
from engine.dataset.times import EARLIEST_MS, LATEST_MS
from engine.flush import Flush
from engine.labels import Labels
from engine.recording import Recorder
from engine.recording.retention import FOREVER
from engine.series import STALE_BITS, Series

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.sampled_from(["a", "rank", "value", "timestamp", "label.x", "__derived__x", "é", "L"])
LABELS = st.dictionaries(NAMES, TEXT, max_size=3)
TIMES = st.integers(EARLIEST_MS, LATEST_MS)
BITS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([STALE_BITS, 0x7FF8000000000000, 0x7FF0000000000000, 1, 1 << 63]),
)
SAMPLES = st.dictionaries(TIMES, BITS, min_size=1, max_size=5)
DATA = st.lists(st.tuples(LABELS, SAMPLES), min_size=1, max_size=4, unique_by=str)


def made(rows: list[tuple[dict[str, str], dict[int, int]]]) -> list[Series]:
    found = []
    for number, (labels, samples) in enumerate(rows):
        times = sorted(samples)
        values = np.array([samples[time] for time in times], dtype=np.uint64).view(np.float64)
        own = Labels({**labels, "__name__": f"m{number}"})
        found.append(Series(own, np.array(times, dtype=np.int64), values))
    return found


def bits(series: list[Series]) -> list[tuple[Labels, list[int], list[int]]]:
    return [
        (
            one.labels,
            one.timestamps_ms.tolist(),
            np.ascontiguousarray(one.values).view(np.uint64).tolist(),
        )
        for one in series
    ]


def read(path: Path) -> list[tuple[Labels, list[int], list[int]]]:
    return bits(open_data(str(path)).select((), -(1 << 62), 1 << 62))


@settings(max_examples=40, deadline=None)
@given(rows=DATA)
def test_csv_parquet_and_a_recording_keep_every_bit(
    rows: list[tuple[dict[str, str], dict[int, int]]],
) -> None:
    series = sorted(made(rows), key=lambda one: one.labels)
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "a.csv"), Path(folder, "a.parquet")
        with csv.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, series)
        write_parquet(str(parquet), series)
        assert read(csv) == bits(series)
        assert read(parquet) == bits(series)
        recorder = Recorder(str(Path(folder, "rec")), retention=FOREVER)
        for one in series:
            for time, value in zip(one.timestamps_ms.tolist(), one.values, strict=True):
                assert recorder.write(Flush(time, (one.labels,), np.array([value])))
        assert read(Path(folder, "rec")) == bits(series)
        recorder.close()
        assert read(Path(folder, "rec")) == bits(series)


@settings(max_examples=40, deadline=None)
@given(rows=DATA)
def test_openmetrics_keeps_all_but_staleness_markers_and_nan_payloads(
    rows: list[tuple[dict[str, str], dict[int, int]]],
) -> None:
    series = sorted(made(rows), key=lambda one: one.labels)
    expected = []
    for labels, times, values in bits(series):
        kept = [(t, v) for t, v in zip(times, values, strict=True) if v != STALE_BITS]
        nan = [
            0x7FF8000000000000 if np.isnan(np.uint64(v).view(np.float64)) else v for _, v in kept
        ]
        if kept:
            expected.append((labels, [t for t, _ in kept], nan))
    if not expected:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.om")
        with path.open("w", encoding="utf-8", newline="") as file:
            write_openmetrics(file, series)
        assert read(path) == expected
