"""Broken recordings, each with the one message that names the file and the mend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.dataset import open_data
from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.recording import Recorder
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = 1_700_000_000_000
UP = (Labels.of(__name__="up"),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "rec"
    recorder = Recorder(str(path))
    for hour in range(2):
        time_ms = START + hour * 3_600_000
        event = TaskEvent(time_ms, time_ms, "k", "n", "t", "0", 1)
        recorder.write(Flush(time_ms, UP, np.array([1.0]), (event,)))
    recorder.close()
    return path


def file_of(folder: Path, pattern: str) -> Path:
    return min(folder.glob(pattern))


def spoil(pattern: str, content: bytes) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file_of(folder, pattern).write_bytes(content)

    return apply


def add(name: str, content: bytes) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return apply


def cut(pattern: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = file_of(folder, pattern)
        path.write_bytes(path.read_bytes()[:-20])

    return apply


def signed(entry: dict[str, object]) -> str:
    text = json.dumps(entry, separators=(",", ":"), sort_keys=True)
    return f'{{"crc32":"{zlib.crc32(text.encode()):08x}","entry":{text}}}\n'


def newer(folder: Path) -> None:
    (folder / "manifest.jsonl").write_text(signed({"type": "recording", "version": 2}))


def swap(folder: Path) -> None:
    first, second = sorted(folder.glob("metrics-*"))
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)


def journal(payload: bytes) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        head = len(payload).to_bytes(4, "little") + zlib.crc32(payload).to_bytes(4, "little")
        (folder / "journal-20231114T22-9.swj").write_bytes(b"SWJ1\n" + head + payload)

    return apply


READING: list[tuple[Callable[[Path], None], str, str]] = [
    (newer, "rec/manifest.jsonl: is of format version 2, this stallwatch reads version 1", "upgra"),
    (cut("metrics-*"), "rec/metrics-20231114T22.parquet: is not readable as Parquet", "complete"),
    (spoil("metrics-*", b""), "rec/metrics-20231114T22.parquet: is not readable", "complete"),
    (spoil("metrics-*", b"x" * 99), "rec/metrics-20231114T22.parquet: is not readable", "complete"),
    (swap, "rec/metrics-20231114T22.parquet: is not the file that was recorded", "renamed"),
    (cut("events-*"), "rec/events-20231114T22.parquet: is not readable as a recording's", "remove"),
    (journal(b"what\n"), "rec/journal-20231114T22-9.swj: is no journal of this", "move it away"),
    (journal(b"{}\n"), "rec/journal-20231114T22-9.swj: is no journal of this", "move it away"),
    (journal(b'{"k":"samples","t":5,"n":9}\n'), "rec/journal-20231114T22-9.swj: is no", "move"),
    (
        journal(b'{"k":"samples","t":5,"n":1}\n' + b"\0" * 12),
        "rec/journal-20231114T22-9.swj: is no",
        "move",
    ),
]


@pytest.mark.parametrize(("spoiled", "message", "hint"), READING)
def test_a_broken_recording_gives_one_error(
    folder: Path, spoiled: Callable[[Path], None], message: str, hint: str
) -> None:
    spoiled(folder)
    with pytest.raises(StallwatchError) as caught:
        read(folder)
    shown = str(caught.value).replace(f"{folder.parent}/", "")
    assert shown.startswith(message)
    assert hint in shown.partition("hint: ")[2]


def read(folder: Path) -> tuple[int, tuple[str, ...]]:
    data = open_data(str(folder))
    samples = sum(one.values.size for one in data.select((), 0, 10**15))
    data.events("t", 0, 10**15, 10**15)
    return samples, tuple(data.notices)


def lines(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    path = folder / "manifest.jsonl"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


FILE = {"name": "metrics-1.parquet", "class": "metrics", "start_ms": 1, "end_ms": 2}
# Whole lines with a right checksum, which nevertheless say nothing that can be used.
ODD_ENTRIES: list[dict[str, object]] = [
    {},
    {"type": 5},
    {"type": "sealed", "files": []},
    {"type": "sealed", "stem": "a", "files": 5},
    {"type": "sealed", "stem": "a", "files": [{**FILE, "end_ms": "2"}]},
    {"type": "sealed", "stem": "a", "files": [{**FILE, "name": "/etc/passwd"}]},
    {"type": "sealed", "stem": "a", "files": [{**FILE, "name": "../a.parquet"}]},
    {"type": "sealed", "stem": "a", "files": [], "slots": [{"file": "a"}]},
    {"type": "restart"},
]

HEALED: list[tuple[Callable[[Path], None], str]] = [
    (cut("manifest*"), "rec/manifest.jsonl: "),
    (lambda folder: lines(folder, lambda own: [own[0], "{}\n", *own[1:]]), "were left out: 2"),
    (lambda folder: lines(folder, lambda own: own[:1]), "the manifest does not list them"),
    (lambda folder: lines(folder, lambda own: []), "the manifest does not list them"),
    (lambda folder: (folder / "manifest.jsonl").unlink(), ""),
    *(
        (lambda folder, one=one: lines(folder, lambda own: [signed(one), *own[1:]]), "out: 1")
        for one in ODD_ENTRIES
    ),
    (add("x.parquet.tmp", b"x"), ""),
    (add("journal-20231114T22-9.swj", b"SW"), "2 bytes"),
    (add("journal-20231114T22-9.swj", b""), ""),
]


@pytest.mark.parametrize(("spoiled", "notice"), HEALED)
def test_what_can_be_read_all_the_same_is_read_and_told(
    folder: Path, spoiled: Callable[[Path], None], notice: str
) -> None:
    spoiled(folder)
    samples, notices = read(folder)
    assert samples == 2
    told = " ".join(notices)
    assert notice in told or "the manifest does not list them" in told
    Recorder(str(folder)).close()
    assert read(folder)[0] == 2


def test_an_hour_that_somebody_took_away_is_told(folder: Path) -> None:
    file_of(folder, "metrics-*").unlink()
    assert read(folder) == (
        1,
        (f"{folder}: metrics-20231114T22.parquet is missing, its hour has no data",),
    )


def as_nobody(folder: str) -> subprocess.CompletedProcess[str]:
    program = """
        import sys
        from engine.recording import Recorder
        from rules.errors import StallwatchError
        import os
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            Recorder(sys.argv[1])
        except StallwatchError as error:
            sys.exit(str(error))
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), folder],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of another user")
def test_a_folder_of_another_user_is_refused_with_the_user_named(folder: Path) -> None:
    for parent in folder.parents[:3]:
        parent.chmod(0o755)
    ended = as_nobody(str(folder))
    assert ended.returncode == 1
    assert "cannot record here: Permission denied" in ended.stderr
    assert "choose a folder that uid 65534 may write" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/null", "/dev/null: cannot record here: File exists"),
        ("/dev/null/x", "/dev/null/x: cannot record here: Not a directory"),
        ("/proc/nothing/x", "/proc/nothing: cannot record here: "),
    ],
)
def test_a_place_that_is_no_folder_is_refused(path: str, message: str) -> None:
    with pytest.raises(StallwatchError) as caught:
        Recorder(path)
    assert str(caught.value).startswith(message)
    assert "\n    hint: " in str(caught.value)


def test_a_recorder_refuses_a_newer_recording_and_lets_its_lock_go(folder: Path) -> None:
    before = (folder / "manifest.jsonl").read_text()
    newer(folder)
    with pytest.raises(StallwatchError, match="format version 2"):
        Recorder(str(folder))
    (folder / "manifest.jsonl").write_text(before)
    Recorder(str(folder)).close()


def test_a_reader_beside_a_writer_always_sees_every_flush(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "live"))
    for step in range(60):
        recorder.write(Flush(START + step * 1_200_000, UP, np.array([float(step)])))
        (up,) = open_data(str(tmp_path / "live")).select((), 0, 10**15)
        assert up.values.tolist() == list(range(step + 1))
    recorder.close()
