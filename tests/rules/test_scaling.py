from __future__ import annotations

from pathlib import Path

import pytest

from rules.loader import load_source
from rules.model import AlertingRule
from rules.packs import shipped
from rules.scaling import divide_durations
from rules.source import ProblemsError, Source

SLOW = """\
# Every 5m in a comment stays.
groups:
  - name: a   # layout stays
    interval: 10s
    query_offset: 1m
    rules:
      - alert: Lost
        expr: |
          sum(rate(x[5m] offset 1m)) by (task_id)   # why
            > max_over_time(y[1h:30s] offset -10m) + 1m
        for: &wait "5m"
        keep_firing_for: 0s
        labels: {window: 5m}
        annotations:
          summary: 'Over the last 5m, for 1h30m. Not v5m or 5m.example'
          runbook_url: https://example.org/5m
      - alert: Other
        expr: >-
          absent(x
          [5s:1s])
        for: *wait
"""
FAST = """\
# Every 5m in a comment stays.
groups:
  - name: a   # layout stays
    interval: 1s
    query_offset: 6s
    rules:
      - alert: Lost
        expr: |
          sum(rate(x[30s] offset 6s)) by (task_id)   # why
            > max_over_time(y[6m:3s] offset -1m) + 6s
        for: &wait "30s"
        keep_firing_for: 0s
        labels: {window: 5m}
        annotations:
          summary: 'Over the last 30s, for 9m. Not v5m or 5m.example'
          runbook_url: https://example.org/5m
      - alert: Other
        expr: >-
          absent(x
          [500ms:100ms])
        for: *wait
"""


def test_every_duration_is_divided_in_its_place() -> None:
    slow = SLOW.replace("absent(x\n", "absent_over_time(x\n")
    fast = FAST.replace("absent(x\n", "absent_over_time(x\n")
    assert divide_durations(slow, 10) == fast


def test_nothing_falls_below_a_millisecond() -> None:
    text = "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: x\n    for: 5ms\n"
    assert "for: 1ms" in divide_durations(text, 1000)


@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).name)
def test_the_fast_pack_is_the_shipped_one_ten_times_faster(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    slow = load_source(Source(path.name, text)).file
    fast = load_source(Source(path.name, divide_durations(text, 10))).file
    assert slow is not None
    assert fast is not None
    for before, after in zip(slow.groups, fast.groups, strict=True):
        assert before.interval_ms is not None
        assert after.interval_ms == before.interval_ms / 10
        for old, new in zip(before.rules, after.rules, strict=True):
            if isinstance(old, AlertingRule):
                assert isinstance(new, AlertingRule)
                assert new.for_ms * 10 == old.for_ms


def test_what_is_no_yaml_is_refused() -> None:
    with pytest.raises(ProblemsError):
        divide_durations("groups: [", 10)
