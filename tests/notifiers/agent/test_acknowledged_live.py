"""`stallwatch alerts ack` at a real agent."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from engine.cli.main import main

if TYPE_CHECKING:
    import pytest

PATIENCE = 60.0


def test_alerts_are_acknowledged_shown_and_taken_back(
    agent: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--url", agent.url]

    def listed(*words: str) -> list[dict[str, Any]]:
        assert main(["alerts", "list", *words, *at, "--format", "json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["alerts"]
        return found

    deadline = time.monotonic() + PATIENCE
    while len(listed()) < 2:
        assert time.monotonic() < deadline
    ack = ["alerts", "ack", "Slow", "rank=2", "--author", "me", "--comment", "on it", *at]
    assert main(ack) == 0
    assert capsys.readouterr().out == "Slow  rank=2\n"
    while not (found := [one for one in listed() if "acknowledged" in one]):
        assert time.monotonic() < deadline
    assert [one["labels"]["rank"] for one in found] == ["2"]
    assert [one["labels"]["rank"] for one in listed("rank=2")] == ["2"]
    main(["alerts", *at])
    assert "acknowledged by me at " in capsys.readouterr().out
    assert main(["alerts", "ack", "Nothing", *at]) == 1
    assert capsys.readouterr().out == "no alert that fires matches\n"
    assert main(["alerts", "unack", "Slow", *at]) == 0
    assert capsys.readouterr().out == "Slow  rank=2\n"
    while any("acknowledged" in one for one in listed()):
        assert time.monotonic() < deadline


def test_the_command_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["ack"], "stallwatch alerts ack: which?"),
        (["unack", "a=b", "--comment", "c"], "--comment and --author are for 'ack'"),
        (["ack", "a=~("], "stallwatch alerts: "),
    ):
        assert main(["alerts", *words, "--url", "http://127.0.0.1:1"]) == 2
        assert said in capsys.readouterr().err
