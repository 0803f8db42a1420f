from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Recorder, child, open_recording, seal_apart, sealing
from engine.recording.hourly import journals, seal

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    with pytest.raises(OSError, match=why) as told:
        seal_apart(str(folder), only(folder))
    # The one file that would have to be moved away.
    assert told.value.filename == str(folder / f"journal-{only(folder)}.swj")
    monkeypatch.undo()
    Recorder(str(folder), seal_hour=seal_apart).close()
    assert not journals(str(folder))


def test_a_child_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_CHILD", "import time; time.sleep(60)")
    monkeypatch.setattr(sealing, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(OSError, match=r"took more than 0.2 s"):
        seal_apart(str(folder), only(folder))


SEAL = "import sys; from engine.recording import seal_apart; seal_apart(*sys.argv[1:])"


@pytest.fixture
def sealed_slowly(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """An agent whose child reads a journal, and where that comes from."""
    pipe = folder / "journal-20200101T00.swj"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", SEAL, str(folder), "20200101T00"]
    with subprocess.Popen(command, start_new_session=True) as agent:
        journal = os.open(pipe, os.O_WRONLY)  # waits for the child
        yield agent, journal
        agent.kill()


def test_a_child_ends_with_the_agent_that_started_it(
    sealed_slowly: tuple[subprocess.Popen[bytes], int],
) -> None:
    agent, journal = sealed_slowly
    agent.kill()
    broken = select.poll()
    broken.register(journal, 0)
    assert broken.poll(30_000) == [(journal, select.POLLERR)]
    os.close(journal)


def test_a_stop_that_is_sent_to_every_process_of_the_service_lets_the_hour_be_written(
    sealed_slowly: tuple[subprocess.Popen[bytes], int], folder: Path
) -> None:
    agent, journal = sealed_slowly
    [child_pid] = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    os.kill(int(child_pid), signal.SIGTERM)
    os.write(journal, (folder / f"journal-{journals(str(folder))[-1]}.swj").read_bytes())
    os.close(journal)
    assert agent.wait() == 0
    assert (folder / "metrics-20200101T00.parquet").exists()
