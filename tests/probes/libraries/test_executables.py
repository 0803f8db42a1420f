"""Programs without a dynamic linker: real ones, compiled here."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from probes.libraries.executables import Executables
from probes.libraries.maps import read_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SLEEPER = (
    '#include <unistd.h>\nint main() { char c; write(1, "u", 1); return (int)read(0, &c, 1); }'
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., int]]:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the programs")
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *flags: str) -> int:
        source, program = tmp_path / "sleeper.c", tmp_path / name
        source.write_text(SLEEPER)
        subprocess.run([compiler, *flags, "-o", str(program), str(source)], check=True)
        process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)
        running.append(process)
        return process.pid

    yield start
    for process in running:
        process.communicate(b"x")


def test_static_and_stripped_programs_are_told_apart_with_their_names(
    run: Callable[..., int], tmp_path: Path
) -> None:
    pids = [run("plain", "-static"), run("bare", "-static", "-s"), run("pie", "-static-pie")]
    executables = Executables()
    executables.begin(10, 10)
    keys = {executables.note(pid, read_maps(pid)) for pid in pids}
    assert len(keys - {None}) == 3
    assert executables.examples("static") == [f"{tmp_path}/pie", f"{tmp_path}/plain"]
    assert str(executables).endswith(f"stripped: 1 ({tmp_path}/bare)")
    executables.keep_only(set())
    assert str(executables) == ""


def test_a_program_with_a_linker_of_another_name_is_called_foreign(run: Callable[..., int]) -> None:
    executables = Executables()
    executables.begin(1, 10)
    pid = run("dynamic")
    executables.note(pid, read_maps(pid))
    assert executables.count("foreign") == 1


def test_so_many_files_are_looked_into_in_a_poll_and_remembered_in_all() -> None:
    executables = Executables()
    maps = [b"00400000-00401000 r-xp 00000000 08:01 %d   /nowhere/%d\n" % (i, i) for i in range(9)]
    for _ in range(4):
        executables.begin(2, 5)
        for text in maps:
            executables.note(os.getpid(), text)
    assert executables.count("unreadable") == 5
    assert str(executables) == "unreadable: 5 (/nowhere/0, /nowhere/1, /nowhere/2, ...)"


def test_what_maps_no_file_is_no_program() -> None:
    executables = Executables()
    executables.begin(9, 9)
    assert executables.note(2, b"") is None
    assert executables.note(2, b"7ffd0000-7ffe0000 rw-p 00000000 00:00 0   [stack]\n") is None
