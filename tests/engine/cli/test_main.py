"""What every subcommand shares: its arguments' mistakes, help, and where its output goes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["chekc"], "stallwatch: there is no command 'chekc'", "did you mean 'check'?"),
        (
            ["check", "--portble", "a"],
            "stallwatch check: there is no option '--portble'",
            "did you mean '--portable'?",
        ),
        (["version", "a"], "stallwatch version: there is no argument 'a'", "--help"),
        (
            ["dry-run"],
            "stallwatch dry-run: the following arguments are required: --rules",
            "--help",
        ),
        (["query", "x", "--data"], "stallwatch query: argument --data: expected one", "--help"),
        (
            ["export", "a", "--out", "b", "--format", "csw"],
            "stallwatch export: argument --format: invalid choice: 'csw'",
            "did you mean 'csv'?",
        ),
    ],
)
def test_wrong_arguments_are_told_in_one_line_with_a_hint(
    args: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(message)
    assert second.startswith("    hint: ")
    assert hint in second


def test_help_of_a_command_is_the_commands_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "check"])
    assert ended.value.code == 0
    assert "stallwatch check rules/packs/*.yaml" in capsys.readouterr().out


def run(shell: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = f'"{sys.executable}" -m engine.cli.main'
    command = shell.replace("stallwatch", program)
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False
    )


def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    full = run("stallwatch version > /dev/full", tmp_path)
    assert (full.returncode, full.stderr) == (2, "stallwatch: No space left on device\n")
    assert run("stallwatch version >&-", tmp_path).stderr == ""


def test_an_error_that_cannot_be_told_still_has_its_exit_status(tmp_path: Path) -> None:
    assert run("stallwatch check nowhere.yaml 2>/dev/full", tmp_path).returncode == 2
    closed = run("stallwatch check nowhere.yaml 2>&-", tmp_path)
    assert (closed.returncode, closed.stdout) == (2, "")


def test_a_reader_that_leaves_ends_the_command_in_silence(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("groups: [{name: a, rules: [{alert: A}]}]\n" * 2)
    closed = run("stallwatch check bad.yaml | true; exit ${PIPESTATUS[0]}", tmp_path)
    assert (closed.returncode, closed.stderr) == (141, "")


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "ä.yaml").write_text("groups: []\n")
    shown = run("PYTHONIOENCODING=ascii stallwatch check *.yaml", tmp_path)
    assert shown.returncode == 0
    assert ".yaml: SUCCESS" in shown.stdout
    assert shown.stdout.isascii()
