from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
receivers:
  - name: oncall
    webhook_configs: [{url: 'http://127.0.0.1:1/'}]
  - name: network
    webhook_configs:
      - {url: 'http://127.0.0.1:1/'}
      - {url: 'http://127.0.0.1:2/', send_resolved: false}
  - name: nobody
route:
  receiver: oncall
  group_by: [alertname]
  repeat_interval: 1h
  routes:
    - matchers: [team="net"]
      receiver: network
      mute_time_intervals: [nights]
    - matchers: [team="none"]
      receiver: nobody
inhibit_rules:
  - source_matchers: [severity="critical"]
    target_matchers: [severity="warning"]
    equal: [node]
time_intervals:
  - name: nights
    time_intervals: [{times: [{start_time: "22:00", end_time: "24:00"}]}]
external_labels: {cluster: c1}
alert_relabel_configs:
  - {source_labels: [team], regex: test, action: drop}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stallwatch.yaml").write_text(CONFIG)
    return tmp_path
