"""`config.original` of the status: what it spells is read again as it was."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.config.loader import load_config
from engine.config.model import Config, ReceiverConfig, RouteConfig
from notifiers.api.original import original
from notifiers.routing.tree import build_tree

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = r"""
route:
  receiver: oncall
  group_by: ["..."]
  group_wait: 1m30s
  routes:
    - matchers: ['severity =~ "page|critical"', 'path="C:\\x"']
      continue: true
      mute_time_intervals: [nights, holidays]
      repeat_interval: 1d
      routes:
        - receiver: quiet
          group_by: [alertname, node]
          group_interval: 10s
          active_time_intervals: [nights]
inhibit_rules:
  - source_matchers: ['tier="1"']
    target_matchers: ['tier="2"', rank!=""]
    equal: [task_id]
time_intervals:
  - name: nights
    time_intervals:
      - times: [{start_time: "22:00", end_time: "24:00"}, {start_time: "00:00", end_time: "06:30"}]
        weekdays: ["monday:friday", sunday]
        location: Europe/Berlin
  - name: holidays
    time_intervals:
      - {days_of_month: ["24:26", "-1"], months: [december], years: ["2025:2027"]}
receivers:
  - name: oncall
    webhook_configs: [{url: "https://hooks.example/T0/secret"}]
  - name: quiet
"""


def test_it_is_read_again_as_the_same_routing(tmp_path: Path) -> None:
    file = tmp_path / "stallwatch.yaml"
    file.write_text(WRITTEN)
    config = load_config(str(file))
    text = original(config)
    file.write_text(text)
    again = load_config(str(file))
    assert again.route == config.route
    assert again.inhibit_rules == config.inhibit_rules
    assert again.time_intervals == config.time_intervals
    assert [one.name for one in again.receivers] == ["oncall", "quiet"]
    assert "secret" not in text


def test_without_a_route_it_spells_one_that_tells_everybody(tmp_path: Path) -> None:
    config = Config(receivers=(ReceiverConfig(name="oncall"), ReceiverConfig(name="quiet")))
    file = tmp_path / "stallwatch.yaml"
    file.write_text(original(config))
    told = build_tree(load_config(str(file)).route or RouteConfig()).match({"alertname": "Slow"})
    assert [(one.receiver, one.group_by) for one in told] == [("oncall", None), ("quiet", None)]
    assert original(Config()) == "receivers: []\n"


@pytest.mark.skipif(
    shutil.which("amtool") is None, reason="amtool (apt: prometheus-alertmanager) is not installed"
)
def test_amtool_takes_it(tmp_path: Path) -> None:
    file = tmp_path / "stallwatch.yaml"
    file.write_text(WRITTEN)
    file.write_text(original(load_config(str(file))))
    command = ["amtool", "check-config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 receivers" in done.stdout
    command = ["amtool", "config", "routes", "test", f"--config.file={file}", "severity=page"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "oncall\n"
