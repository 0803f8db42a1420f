"""`stallwatch dry-run --notify`, and `notify simulate` of what the same dry-run wrote."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from tests.notifiers.forecast.slow_week import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

# Monday, 2026-11-02 21:00 UTC.
START = 1_793_653_200
RULES = """
groups:
  - name: comm
    interval: 1m
    rules:
      - alert: Waiting
        expr: wait > 0.3
        labels: {team: net}
      - alert: Slow
        expr: wait > 0.3
        for: 2m
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Waits from minute 10 to 39 and from 120 to 129 of three hours."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stallwatch.yaml").write_text(CONFIG)
    (tmp_path / "rules.yaml").write_text(RULES)
    waits = {*range(10, 40), *range(120, 130)}
    rows = [
        f"{(START + minute * 60) * 1000},{0.5 if minute in waits else 0},wait,a"
        for minute in range(181)
    ]
    (tmp_path / "data.csv").write_text("\n".join(["timestamp,value,__name__,node", *rows]) + "\n")
    return ["dry-run", "--rules", "rules.yaml", "--data", "data.csv", "--location", "UTC"]


def test_a_dry_run_says_who_would_have_been_told(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--notify"]) == 0
    shown = capsys.readouterr().out
    # Waiting at 23:00 is muted by the network's nights, and was told and ended before.
    _, _, told = shown.partition("4 alerts fired; 1 series, 362 rule evaluations\n\n")
    head, _, *rows = told.splitlines()
    assert head == "4 alerts in 0.125 days would have been told so (night: 22:00-07:00 UTC):"
    assert [re.split("  +", row) for row in rows] == [
        ["receiver", "messages", "at night", "repeats", "resolved", "inhibited", "muted",
         "silenced", "limited", "busiest hour"],
        ["oncall", "4", "2", "0", "2", "0", "0", "0", "0", "2, Mon 2026-11-02 21:00"],
        ["network", "2", "0", "0", "1", "0", "1", "0", "0", "2, Mon 2026-11-02 21:00"],
    ]  # fmt: skip


def test_json_has_the_same_and_so_has_a_simulation_of_its_alerts(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--notify", "--night", "23-24", "--format", "json"]) == 0
    shown = json.loads(text := capsys.readouterr().out)
    oncall, network = shown["notifications"]["receivers"]
    assert (oncall["receiver"], oncall["messages"], oncall["at_night"]) == ("oncall", 4, 2)
    assert network["busiest_hour"] == {"start": START, "messages": 2}
    assert (network["muted"], network["integrations"][0]["integration"]) == (1, "network/webhook/0")
    (tmp_path / "alerts.json").write_text(text)
    simulate = ["notify", "simulate", "alerts.json", "--location", "UTC", "--night", "23-24"]
    assert main([*simulate, "--format", "json"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    assert len(simulated.pop("messages")) == 6
    assert simulated == shown["notifications"]


def test_a_rate_limit_counts_as_it_does_live(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = "name: oncall\n    rate_limit: {messages: 1, per: 1d}\n"
    (tmp_path / "stallwatch.yaml").write_text(CONFIG.replace("name: oncall\n", limit))
    assert main([*command, "--notify", "--format", "json"]) == 0
    oncall, network = json.loads(capsys.readouterr().out)["notifications"]["receivers"]
    # The first firing is told; its end, and what came later, would have been.
    assert (oncall["messages"], oncall["limited"] > 0) == (1, True)
    assert oncall["integrations"][0]["limited"] == oncall["limited"]
    assert (network["messages"], network["limited"]) == (2, 0)


def test_a_receiver_with_several_integrations_has_a_line_for_each(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = "{url: 'http://127.0.0.1:1/'}"
    two = f"{one}, {{url: 'http://127.0.0.1:2/', send_resolved: false}}"
    (tmp_path / "stallwatch.yaml").write_text(CONFIG.replace(one, two, 1))
    assert main([*command, "--notify"]) == 0
    rows = [re.split("  +", row.strip()) for row in capsys.readouterr().out.splitlines()[-4:]]
    assert [row[:2] for row in rows] == [
        ["oncall", "6"], ["oncall/webhook/0", "4"], ["oncall/webhook/1", "2"], ["network", "2"],
    ]  # fmt: skip


def test_silences_from_a_file_keep_back(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silence = {
        "matchers": [{"name": "alertname", "value": "Slow", "isRegex": False, "isEqual": True}],
        "startsAt": "2026-11-02T20:00:00Z",
        "endsAt": "2026-11-02T22:30:00Z",
        "createdBy": "a",
        "comment": "b",
    }
    (tmp_path / "silences.json").write_text(json.dumps([silence]))
    assert main([*command, "--notify", "--silences", "silences.json", "--format", "json"]) == 0
    oncall, _ = json.loads(capsys.readouterr().out)["notifications"]["receivers"]
    assert (oncall["messages"], oncall["silenced"]) == (2, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--night", "late"], "--night: no hours: 'late'"),
        (["--location", "Moon/Base"], "there is no time zone 'Moon/Base'"),
        (["--silences", "none.json"], "none.json: No such file"),
        (["--config", "empty.yaml"], "names no receiver"),
    ],
)
def test_what_cannot_be_counted_is_one_clear_error(
    command: list[str],
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty.yaml").write_text("listen: 127.0.0.1:9466\n")
    assert main([*command, "--notify", *options]) == 2
    assert said in capsys.readouterr().err
