"""`stallwatch notify simulate`."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = """
receivers:
  - name: oncall
    webhook_configs: [{url: 'http://127.0.0.1:1/', send_resolved: false}]
  - name: network
    webhook_configs: [{url: 'http://127.0.0.1:1/'}]
route:
  receiver: oncall
  group_by: [alertname]
  repeat_interval: 1h
  routes:
    - matchers: [team="net"]
      receiver: network
      continue: true
    - receiver: oncall
"""
QUICK = "group_by: [alertname]\n  group_wait: 0s\n  group_interval: 10s"
# 2026-11-02 12:00 UTC; the tests' clock is in UTC.
NOON = 1_793_620_800


def alert(name: str, fired: float, resolved: float | None = None, **labels: str) -> dict[str, Any]:
    over = None if resolved is None else NOON + resolved
    return {
        "alertname": name,
        "labels": {"alertname": name, **labels},
        "annotations": {},
        "active_at": NOON + fired,
        "fired_at": NOON + fired,
        "resolved_at": over,
        "value": "NaN",
    }


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "stallwatch.yaml").write_text(CONFIG)
    return str(tmp_path / "stallwatch.yaml")


def written(folder: Path, *alerts: dict[str, Any], hours: float = 24) -> str:
    path = folder / "alerts.json"
    run = {"series": 1, "start": NOON, "end": NOON + hours * 3600, "alerts": alerts}
    path.write_text(json.dumps(run))
    return str(path)


def test_messages_are_counted_by_integration_and_those_at_night_apart(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    night = 11 * 3600
    path = written(
        tmp_path,
        alert("A", 0, 600, node="n1"), alert("A", 10, 600, node="n2"),
        alert("B", night, night + 3 * 3600, team="net"),
    )  # fmt: skip
    assert main(["notify", "simulate", path, "--config", config]) == 0
    shown = capsys.readouterr().out
    head, _, *rows = shown.splitlines()
    assert head == "3 alerts in 1 day would have been told so (night: 22:00-07:00 Local):"
    assert [row.split(maxsplit=9) for row in rows[1:]] == [
        ["oncall", "4", "3", "2", "0", "0", "0", "0", "0", "1, Mon 2026-11-02 12:00"],
        ["network", "4", "4", "2", "1", "0", "0", "0", "0", "1, Mon 2026-11-02 23:00"],
    ]


def test_each_message_may_be_listed_and_is_there_as_json(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, alert("A", 0, 600), hours=1)
    assert main(["notify", "simulate", path, "--config", config, "--each"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        '2026-11-02T12:00:30Z  oncall/webhook/0  {}/{}:{alertname="A"}  '
        "1 firing, 0 resolved: first notification"
    )
    assert main(["notify", "simulate", path, "--config", config, "--format", "json"]) == 0
    (message,) = json.loads(capsys.readouterr().out)["messages"]
    assert message["firing"] == [{"alertname": "A"}]
    assert message["time"] == NOON + 30


def test_an_alert_that_flaps_is_told_once(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spells = [alert("A", begin, begin + 30) for begin in range(0, 7200, 60)]
    path = written(tmp_path, *spells, hours=4)
    rows = {}
    for off in ("", "flapping: {enabled: false}\n"):
        Path(config).write_text(CONFIG.replace("group_by: [alertname]", QUICK) + off)
        assert main(["notify", "simulate", path, "--config", config]) == 0
        rows[off] = capsys.readouterr().out.splitlines()[3].split()[1]
    # Three times as it fires, one digest, two repeats of it; no end is asked for.
    assert list(rows.values()) == ["6", "120"]


def test_alerts_may_come_from_standard_input(
    config: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = Path(written(tmp_path, alert("A", 0))).read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["notify", "simulate", "-", "--config", config]) == 0
    assert "1 alert in 1 day " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the file: Invalid JSON"),
        ("{}", "start: Field required"),
        ('{"start": 0, "end": 1, "alerts": [{"labels": {}}]}', "alerts.0.active_at: Field"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_dry_run_is_one_clear_error(
    text: str | None,
    message: str,
    config: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "alerts.json"
    if text is not None:
        path.write_text(text)
    assert main(["notify", "simulate", str(path), "--config", config]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_a_missing_file_and_receivers_are_asked_for(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "simulate", "--config", config]) == 2
    assert "name one file of alerts" in capsys.readouterr().err
    (tmp_path / "empty.yaml").write_text("listen: 127.0.0.1:9466\n")
    path = written(tmp_path, alert("A", 0))
    assert main(["notify", "simulate", path, "--config", str(tmp_path / "empty.yaml")]) == 2
    assert "names no receiver" in capsys.readouterr().err
