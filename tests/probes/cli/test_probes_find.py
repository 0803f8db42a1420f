from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def library(tmp_path: Path) -> Path:
    source, path = tmp_path / "a.c", tmp_path / "libswfind.so"
    source.write_text("int sw_start(int a) { return a; } int sw_stop(int a) { return -a; }")
    try:
        subprocess.run(["gcc", "-shared", "-o", path, source], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    return path


def test_a_part_of_the_name_is_enough(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probes", "find", str(library), "sta"]) == 0
    shown = capsys.readouterr().out
    assert "sw_start" in shown
    assert "sw_stop" not in shown


def test_json_has_all_that_a_probe_needs(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probes", "find", str(library), "sw_*", "--format", "json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)
    assert file["total"] == 2
    stop, start = file["symbols"]
    assert (start["name"], stop["name"], start["exits"]) == ("sw_start", "sw_stop", 1)
    assert start["offset"] > 0


def test_a_wrong_pattern_is_status_1_with_suggestions(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probes", "find", str(library), "sw_strat"]) == 1
    shown = capsys.readouterr().out
    assert "nothing is called 'sw_strat'\n  did you mean:\n    sw_start\n" in shown


def test_a_name_is_looked_for_in_running_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probes", "find", f"{os.getpid()}:libc.so", "getppid"]) == 0
    assert f"(as process {os.getpid()} has it)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["find"], "a library and a pattern are needed"),
        (["find", "libnothing-of-the-kind.so.77", "x"], "no running process maps a file"),
        (["find", f"{os.getpid()}:libd.so.6", "x"], "did you mean 'lib"),
        (["find", "/etc/passwd", "x"], "not an ELF file"),
        (["find", "/nonexistent/lib.so", "x"], "cannot be opened"),
    ],
)
def test_what_cannot_be_searched_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probes", *arguments]) == 2
    assert message in capsys.readouterr().err
