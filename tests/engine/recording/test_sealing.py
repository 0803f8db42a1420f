from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Recorder, child, open_recording, seal_apart, sealing
from engine.recording.hourly import journals, seal

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600_000
START = 1_700_000_000_000 - 1_700_000_000_000 % HOUR
SERIES = (Labels.of(__name__="a", rank="0"), Labels.of(__name__="b", x="é\n"))
EVENT = TaskEvent(START, START, "retransmit", "n", "t", "0", 7, (("dport", 80),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording whose only hour is a journal, as a killed agent leaves it."""
    folder = tmp_path / "recording"
    recorder = Recorder(str(folder), seal_hour=never)
    for step in range(3):
        flush = Flush(START + step * 10_000, SERIES, np.array([step, np.nan]), (EVENT,))
        assert recorder.write(flush)
    recorder.log_evaluated("f", "g", START)
    recorder.close()
    return folder


def never(_folder: str, _stem: str) -> dict[str, Any]:
    raise OSError(28, "No space left on device", "here")


def only(folder: Path) -> str:
    [stem] = journals(str(folder))
    return stem


def test_a_child_writes_what_the_agent_itself_would_write(folder: Path) -> None:
    stem = only(folder)
    ours = seal(str(folder), stem)
    written = {file["name"]: (folder / file["name"]).read_bytes() for file in ours["files"]}
    assert seal_apart(str(folder), stem) == ours
    assert {name: (folder / name).read_bytes() for name in written} == written


def test_an_hour_that_a_child_has_sealed_is_read_as_it_was_written(folder: Path) -> None:
    Recorder(str(folder), seal_hour=seal_apart).close()
    assert not journals(str(folder))
    [a, _] = open_recording(str(folder)).select((), 0, 10**15)
    assert a.values.tolist() == [0, 1, 2]


def test_the_agent_does_not_load_what_writes_parquet(folder: Path) -> None:
    program = (
        "import sys; from engine.recording import Recorder, seal_apart;"
        f"Recorder({str(folder)!r}, seal_hour=seal_apart).close();"
        "sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert not journals(str(folder))


def test_what_the_system_refuses_is_the_same_refusal(folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as ours:
        seal(str(folder), "20200101T00")
    with pytest.raises(FileNotFoundError) as theirs:
        seal_apart(str(folder), "20200101T00")
    assert str(theirs.value) == str(ours.value)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os; os.kill(os.getpid(), 9)", r"ended with status -9"),
        ("raise MemoryError('no room')", r"ended with status 1: MemoryError: no room"),
    ],
)
def test_a_child_that_dies_leaves_the_journal_for_the_next_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    monkeypatch.setattr(child, "_CHILD", program)
    with pytest.raises(OSError, match=why):
        seal_apart(str(folder), only(folder))
    monkeypatch.undo()
    Recorder(str(folder), seal_hour=seal_apart).close()
    assert not journals(str(folder))


def test_a_child_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr(sealing, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(OSError, match=r"took more than 0.2 s"):
        seal_apart(str(folder), only(folder))
