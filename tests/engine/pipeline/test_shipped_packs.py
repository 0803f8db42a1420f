"""The shipped rules under our own evaluator, by the same cases that promtool runs."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from engine.dataset import open_data
from engine.pipeline.replay import replay
from rules.durations import parse_duration
from rules.loader import load_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[2] / "rules/packs"
STEP_MS = 10_000
START_MS = 1_000_000 * STEP_MS
CASES = [
    (name, case)
    for name in ("comm", "gpu", "self")
    for case in yaml.safe_load((FOLDER / f"{name}.test.yaml").read_text())["tests"]
]


def _values(text: str) -> Iterator[str | None]:
    """promtool's series notation, as far as the cases use it: `1`, `_x3`, `1x3`, `0+2x3`."""
    for part in text.split():
        found = re.fullmatch(r"(_|[\d.]+)(?:\+([\d.]+))?(?:x(\d+))?", part)
        assert found is not None, part
        first, step, times = found.group(1), found.group(2), found.group(3)
        # `ax3` is four samples, `_x3` three gaps.
        count = 1 if times is None else int(times) + (first != "_")
        for index in range(count):
            yield None if first == "_" else repr(float(first) + index * float(step or 0))


def _write(path: Path, series: list[dict[str, str]]) -> None:
    rows: list[dict[str, str]] = []
    for one in series:
        name, _, block = one["series"].partition("{")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', block))
        for index, value in enumerate(_values(one["values"])):
            if value is not None:
                time_ms = str(START_MS + index * STEP_MS)
                rows.append({"timestamp": time_ms, "value": value, "__name__": name, **labels})
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: int(row["timestamp"])))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_shipped_rule_fires_when_it_must_and_only_then(
    name: str, case: dict[str, Any], tmp_path: Path
) -> None:
    _write(tmp_path / "data.csv", case["input_series"])
    files = load_paths([FOLDER / f"../../../rules/packs/{name}.yaml"])
    for expected in case["alert_rule_test"]:
        end_ms = START_MS + parse_duration(expected["eval_time"])
        result = replay(files, open_data(str(tmp_path / "data.csv")), START_MS, end_ms)
        firing = [
            alert
            for alert in result.alerts
            if alert.labels.name == ""
            and alert.labels.get("alertname") == expected["alertname"]
            and alert.resolved_at_ms is None
        ]
        shown = [
            (sorted(alert.labels.without("alertname").to_dict().items()), alert.annotations)
            for alert in firing
        ]
        wanted = [
            (sorted(alert["exp_labels"].items()), alert["exp_annotations"])
            for alert in expected.get("exp_alerts", [])
        ]
        assert sorted(shown, key=str) == sorted(wanted, key=str), case["name"]
