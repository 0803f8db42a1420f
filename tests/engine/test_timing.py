"""Every moment of a command belongs to one part."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from engine.timing import (
    ALERT_STATE,
    EVALUATE,
    PARTS,
    READ,
    START,
    Timing,
    peak_memory_bytes,
    process_age_seconds,
)

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [*PARTS, "peak_memory_bytes"]


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_part_inside_another_interrupts_it() -> None:
    clock = Clock()
    timing = Timing(clock)
    clock.now += 1
    with timing.part(ALERT_STATE):
        clock.now += 10
        with timing.part(EVALUATE):
            clock.now += 100
        clock.now += 20
    clock.now += 2
    found = timing.seconds()
    assert (found[START], found[ALERT_STATE], found[EVALUATE]) == (3, 30, 100)


def test_reading_in_any_thread_is_reading_and_two_at_once_count_once() -> None:
    clock = Clock()
    timing = Timing(clock)
    begun, ended = threading.Event(), threading.Event()

    def read() -> None:
        with timing.reading():
            begun.set()
            ended.wait()

    with timing.part(EVALUATE):
        thread = threading.Thread(target=read)
        thread.start()
        begun.wait()
        clock.now += 5
        with timing.reading():
            clock.now += 7
        ended.set()
        thread.join()
        clock.now += 1
    found = timing.seconds()
    assert (found[READ], found[EVALUATE]) == (12, 1)


def test_a_process_knows_its_age_and_its_peak() -> None:
    before = process_age_seconds()
    assert before > 0
    assert process_age_seconds() >= before
    assert peak_memory_bytes() > 1_000_000


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.csv"
    path.write_text("timestamp,value,__name__\n1700000000000,1,up\n1700000010000,1,up\n")
    return str(path)


def rules(tmp_path: Path, expr: str) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text(f"groups: [{{name: g, rules: [{{alert: A, expr: '{expr}'}}]}}]\n")
    return str(path)


def line(text: str) -> dict[str, float]:
    """The one line of JSON among what a command says on standard error."""
    (found,) = [own for own in text.splitlines() if own.startswith("{")]
    parsed: dict[str, float] = json.loads(found)
    assert list(parsed) == KEYS
    return parsed


def test_the_parts_add_up_to_the_time_of_the_process(tmp_path: Path, data: str) -> None:
    command = ["dry-run", "--rules", rules(tmp_path, "up > 0"), "--data", data, "--timing"]
    start = "import sys; from engine.cli.start import main; sys.exit(main())"
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", start, *command], capture_output=True, text=True, check=True
    )
    wall = time.monotonic() - begun
    found = line(done.stderr)
    assert "1 alert fired" in done.stdout
    # A relation, not a duration: what the line tells lies inside what a watcher saw.
    assert 0 < sum(found[part] for part in PARTS) <= wall + 0.01
    assert all(found[part] > 0 for part in PARTS)


def test_a_command_that_found_something_or_failed_tells_its_timing_too(
    tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dry_run = ["dry-run", "--data", data, "--timing", "--rules"]
    assert main([*dry_run, rules(tmp_path, "up > 0"), "--fail-on-alert"]) == 1
    line(capsys.readouterr().err)
    assert main([*dry_run, rules(tmp_path, "up + on () group_left up"), "--fail-on-alert"]) in {
        0,
        1,
    }
    line(capsys.readouterr().err)
    assert main(["query", "up", "--data", data, "--timing", "--start", "1800000000"]) == 2
    said = capsys.readouterr().err
    assert "is after the last sample" in said
    line(said)
    assert (
        main(["query", 'label_replace(up, "a", "$1", "b", "(")', "--data", data, "--timing"]) == 2
    )
    line(capsys.readouterr().err)


def test_without_the_option_nothing_is_said(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "up", "--data", data]) == 0
    assert capsys.readouterr().err == ""
