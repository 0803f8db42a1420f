from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset.errors import DataError
from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Recorder, child, open_recording, read_window
from engine.series import STALE_NAN
from engine.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from engine.recording.window import Row

STEP = 600_000
START = 1_700_000_000_000
END = START + 11 * STEP
A, B, RULE = (Labels.of(__name__=name, x="\u00e9\n") for name in ("a", "b", "rule"))
EVERY_KIND = [1.5, np.nan, np.inf, -np.inf, -0.0, 1e-320, float(STALE_NAN)]


def flushes() -> list[Flush]:
    """Two hours in which one series pauses, with an event in each flush."""
    found = []
    for step in range(12):
        time_ms = START + step * STEP
        labels = (A, B) if step % 3 else (A,)
        values = np.array([EVERY_KIND[step % 7], step])[: len(labels)]
        event = TaskEvent(time_ms - 5, time_ms, "reset", "n", "t", "0", 7, (("dport", step),))
        found.append(Flush(time_ms, labels, values, (event,)))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> str:
    recorder = Recorder(str(tmp_path / "recording"))
    for one in flushes():
        assert recorder.write(one)
        assert recorder.write_samples(one.timestamp_ms, (RULE,), np.array([2.0]))
    recorder.close()
    return str(tmp_path / "recording")


def bits(store: Store) -> list[tuple[Labels, list[int], list[int]]]:
    return [
        (one.labels, one.timestamps_ms.tolist(), one.values.view(np.uint64).tolist())
        for one in store.select((), 0, 10**15)
    ]


def test_a_window_filled_from_a_recording_is_the_window_that_was_recorded(folder: str) -> None:
    live, read = Store(window_ms=50 * STEP), Store(window_ms=50 * STEP)
    for one in flushes():
        live.append(one)
        live.append_samples(one.timestamp_ms, (RULE,), np.array([2.0]))
    for time_ms, labels, values, events in read_window(folder, 0, END):
        read.append_samples(time_ms, labels, values)
        read.append_events(events)
    assert bits(read) == bits(live)
    assert read.events("t", 0, END, END) == live.events("t", 0, END, END)


def test_only_the_window_is_read(folder: str) -> None:
    rows = list(read_window(folder, START + 2 * STEP, START + 4 * STEP))
    assert [row[0] for row in rows if row[1]] == [START + step * STEP for step in (2, 3, 4)]
    assert len(rows[-1][3]) == 2


def test_a_recording_that_has_nothing_yet_fills_nothing(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    assert list(read_window(str(tmp_path), 0, END)) == []
    recorder.close()


def test_an_open_hour_is_read_too(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    assert recorder.write(flushes()[1])
    [row, events] = read_window(str(tmp_path), 0, END)
    assert row[1] == [A, B]
    assert events[3] == list(flushes()[1].events)
    recorder.close()


def test_events_come_in_rows_that_the_agent_has_room_for(tmp_path: Path) -> None:
    [*_, one] = flushes()
    many = tuple(replace(one.events[0], time_ms=END - number) for number in range(2500))
    recorder = Recorder(str(tmp_path))
    assert recorder.write(replace(one, events=many))
    _, *rows = read_window(str(tmp_path), 0, END)
    assert [len(events) for *_, events in rows] == [1000, 1000, 500]
    assert {event.time_ms for *_, events in rows for event in events} == {
        event.time_ms for event in many
    }
    recorder.close()


def test_the_agent_does_not_load_what_reads_parquet(folder: str) -> None:
    program = (
        "import sys; from engine.recording import read_window;"
        f"assert list(read_window({folder!r}, 0, {END}));"
        "sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_broken_file_is_named_as_if_read_here(folder: str, tmp_path: Path) -> None:
    [name, *_] = sorted(path.name for path in (tmp_path / "recording").glob("metrics-*"))
    (tmp_path / "recording" / name).write_bytes(b"nothing of the kind")
    with pytest.raises(DataError) as ours:
        open_recording(folder).with_derived().select((), 0, END)
    with pytest.raises(DataError) as theirs:
        list(read_window(folder, 0, END))
    assert str(theirs.value) == str(ours.value)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os; os.kill(os.getpid(), 9)", r"ended with status -9"),
        ("raise MemoryError('no room')", r"ended with status 1: MemoryError: no room"),
        ("print('chatter')", r"ended with status 0"),
    ],
)
def test_a_child_that_dies_is_told_with_its_last_words(
    folder: str, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    monkeypatch.setattr(child, "_CHILD", program)
    with pytest.raises(DataError, match=f"recording: cannot be read back: .* {why}"):
        list(read_window(folder, 0, END))


def test_whoever_stops_reading_leaves_no_child(folder: str) -> None:
    rows = read_window(folder, 0, END)
    first: Row = next(rows)
    assert first[0] == START
    rows.close()  # type: ignore[attr-defined]  # an iterator by its type, a generator by its nature
