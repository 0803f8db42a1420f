"""No bytes, however damaged, give anything but data or a StallwatchError."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset import MemoryDataset, open_data
from engine.dataset.csv_writing import write_csv
from engine.dataset.exposition import write_openmetrics
from engine.dataset.parquet_form import write_parquet
from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Recorder
from engine.series import Series
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

TIMES = np.arange(1_700_000_000_000, 1_700_000_200_000, 10_000)
SERIES = tuple(
    Series(Labels.of(__name__="m", rank=str(rank), x='é,"\n'), TIMES, np.sqrt(TIMES + rank))
    for rank in range(3)
)


def make(path: Path) -> Path:
    """A good file of the kind that the name says."""
    if path.suffix == ".parquet":
        write_parquet(str(path), SERIES)
    elif path.suffix == ".swr":
        recorder = Recorder(str(path))
        for row, time_ms in enumerate(TIMES.tolist()):
            event = TaskEvent(time_ms, time_ms, "k", "n", "t", "0", 1, (("a", 1),))
            labels = tuple(one.labels for one in SERIES)
            values = np.array([one.values[row] for one in SERIES])
            recorder.write(Flush(time_ms, labels, values, (event,)))
        recorder.close()
        again = Recorder(str(path))
        again.write(Flush(int(TIMES[-1]) + 10, (SERIES[0].labels,), np.array([1.0])))
        (journal,) = path.glob("journal-*")
        content = journal.read_bytes()
        again.close()
        (newest,) = path.glob("metrics-*-1.parquet")
        newest.unlink()
        journal.with_name("journal-20991231T00.swj").write_bytes(content)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            write_csv(file, SERIES) if path.suffix == ".csv" else write_openmetrics(file, SERIES)
    return path


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """Cut somewhere, or with a few bits flipped, or a piece overwritten."""
    choice = random.integers(3)
    if choice == 0:
        return content[: random.integers(len(content) + 1)]
    changed = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(changed)))
        if choice == 1:
            changed[at] ^= 1 << int(random.integers(8))
        else:
            changed[at : at + 8] = random.bytes(8)
    return bytes(changed)


@pytest.mark.parametrize("name", ["a.csv", "a.om", "a.parquet"])
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    good = make(tmp_path / name).read_bytes()
    random = np.random.default_rng(1)
    messages = []
    for _ in range(150):
        (tmp_path / name).write_bytes(damaged(good, random))
        try:
            open_data(str(tmp_path / name)).select((), 0, 10**18)
        except StallwatchError as error:
            messages.append(str(error))
    assert messages
    assert all(name in message for message in messages)


def test_a_damaged_recording_is_read_or_refused_and_can_be_written_on(tmp_path: Path) -> None:
    good = make(tmp_path / "good.swr")
    random = np.random.default_rng(2)
    files = sorted(file for file in good.iterdir() if file.name != "lock")
    assert {file.name.partition("-")[0] for file in files} >= {"journal", "metrics", "events"}
    for round_ in range(100):
        bad = tmp_path / "bad.swr"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        victim = bad / files[round_ % len(files)].name
        victim.write_bytes(damaged(victim.read_bytes(), random))
        with contextlib.suppress(StallwatchError):
            data = open_data(str(bad))
            data.select((), 0, 10**18)
            data.events("t", 0, 10**18, 10**18)
        with contextlib.suppress(StallwatchError):
            Recorder(str(bad)).close()


def test_a_flipped_bit_in_a_parquet_value_is_an_error_not_another_value(tmp_path: Path) -> None:
    path = make(tmp_path / "a.parquet")
    good = path.read_bytes()
    expected = [one.values.tobytes() for one in open_data(str(path)).select((), 0, 10**18)]
    random = np.random.default_rng(3)
    for _ in range(100):
        changed = bytearray(good)
        changed[int(random.integers(4, len(good) // 2))] ^= 1 << int(random.integers(8))
        path.write_bytes(changed)
        with contextlib.suppress(StallwatchError):
            data = open_data(str(path))
            assert isinstance(data, MemoryDataset)
            assert [one.values.tobytes() for one in data.select((), 0, 10**18)] == expected
