"""`stallwatch demo`: its options, and the replay where it cannot be played live."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from probes.demo.bundle import BUNDLED, open_bundle
from probes.demo.errors import NotHereError
from probes.demo.network import require_tools

if TYPE_CHECKING:
    from pathlib import Path

FACTS = json.loads((BUNDLED / "facts.json").read_text())


def _events(output: str) -> list[str]:
    """The first word of each dated line."""
    return re.findall(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  (\w+)", output, re.MULTILINE)


def test_a_replay_tells_of_the_alert_the_ranks_and_the_connection(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo", "--replay", "--speed", "0"]) == 0
    shown = capsys.readouterr().out
    assert _events(shown) == ["rules", "clean", "loss", "pending", "FIRING", "healed", "RESOLVED"]
    assert "the shipped rules, every duration divided by ten" in shown
    assert f"task_id={FACTS['task_id']}" in shown
    rows = re.findall(
        r"^ +(\d) +\w+\[\d+\] +(10\.98\.0\.\d):\d+ → (10\.98\.0\.\d):\d+ +(\d+)$",
        shown,
        re.MULTILINE,
    )
    assert sorted((rank, source, to) for rank, source, to, _ in rows) == [
        ("0", "10.98.0.1", "10.98.0.2"),
        ("1", "10.98.0.2", "10.98.0.1"),
    ]
    assert all(int(count) > 0 for *_, count in rows)


def test_no_moving_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--replay", "--speed", "0"])
    shown = capsys.readouterr().out
    assert "\r" not in shown
    assert "\x1b" not in shown


def test_without_root_it_says_so_and_replays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["demo", "--speed", "0"]) == 0
    shown = capsys.readouterr().out
    made = r"no root: replaying a recording of this demo, made on \d{4}-\d\d-\d\d on kernel (\S+)"
    assert re.search(made, shown)
    assert FACTS["kernel"] in shown


def test_without_nft_it_says_what_to_install_and_replays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        shutil, "which", lambda tool: None if tool == "nft" else f"/usr/sbin/{tool}"
    )
    assert main(["demo", "--speed", "0"]) == 0
    shown = capsys.readouterr().out
    assert "nftables not installed (apt-get install nftables): replaying a recording" in shown
    assert "RESOLVED" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "1"], "--seconds 1: must be from 5 to 3600"),
        (["--seconds", "nan"], "--seconds nan: must be from 5 to 3600"),
        (["--speed", "-1"], "--speed -1: must be 0 or more"),
        (["--speed", "nan"], "--speed nan: must be 0 or more"),
        (["--keep-recording", "/etc"], "/etc: exists and is not an empty folder"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_recording_cannot_be_kept_of_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["demo", "--keep-recording", str(tmp_path / "kept")]) == 2
    assert "no root" in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


def test_the_bundle_holds_the_job_and_nothing_else_of_the_machine_it_was_made_on() -> None:
    data = open_bundle().data
    always = 1 << 62
    for series in data.select((), -always, always):
        assert series.labels.get("task_id") in {"", FACTS["task_id"]}
        assert series.labels.get("node") in {"", "demo-node"}
    assert {event.task_id for event in data.all_events(-always, always)} == {FACTS["task_id"]}
    size = sum(path.stat().st_size for path in BUNDLED.rglob("*") if path.is_file())
    assert size < 300_000


def test_a_bundle_that_is_missing_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from probes.demo import replay

    monkeypatch.setattr(replay.introduction, "__defaults__", (tmp_path,))
    assert main(["demo", "--replay"]) == 2
    error = capsys.readouterr().err
    assert "facts.json: cannot be read" in error
    assert "install stallwatch anew" in error


def test_a_tool_that_is_missing_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(NotHereError, match="iproute2 and procps and nftables not installed"):
        require_tools()
