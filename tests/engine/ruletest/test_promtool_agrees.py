"""Rules and series at random: what we find is what promtool expects, where it is installed.

Ranges end in a millisecond, series have a step of 61 s and begin with a gap, so that no sample
falls on the left edge of a window, where Prometheus 2 and 3 differ. Sums of floats are left to the
evaluator's own tests.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from engine.ruletest.loader import load_suite
from engine.ruletest.running import RunOptions, load_groups, run_file
from engine.ruletest.simulation import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from engine.ruletest.simulation import Simulation

EXPRESSIONS = [
    "x", "x > 1", "x == bool 2", "sum by (a) (x)", "x + on (a) group_left () y", "x unless y",
    "x and y > 1", "x or y", "max_over_time(x[151s1ms])", "count_over_time(x[211s1ms])",
    "changes(x[151s1ms])", 'absent(x{a="9"})', "x offset 1m", "time() - timestamp(x)",
    'ALERTS{alertstate="firing"}', "count by (alertname, alertstate) (ALERTS)",
    'label_replace(x, "z", "$1", "a", "(.*)")', 'count_values("v", x)', "r0", "r1 > 2", "r2", "-x",
    "vector(1)", "last_over_time(x[91s1ms])", "resets(c[211s1ms])", "max_over_time(x[91s1ms:30s])",
]  # fmt: skip
VALUES = ["0x2", "1+1x4", "2x3", "5-1x4", "_", "_x2", "stale", "3", "2 2 1", "1x6", "0 1 0 2"]
SERIES = ['x{a="1"}', 'x{a="2"}', 'y{a="1"}', 'c{a="1"}']
ANNOTATIONS = ["{{ $labels.a }} is {{ $value }}", '{{ query "x" | len }}', "{{ humanize $value }}"]


def _alert(made: random.Random, number: int) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": f"A{number}", "expr": made.choice(EXPRESSIONS)}
    if made.random() < 0.6:
        rule["for"] = made.choice(["1m", "90s", "2m", "0s"])
    if made.random() < 0.3:
        rule["keep_firing_for"] = made.choice(["1m", "2m"])
    if made.random() < 0.5:
        rule["labels"] = {"own": made.choice(["p", "v{{ $value }}", "{{ $labels.a }}"])}
    if made.random() < 0.6:
        rule["annotations"] = {"text": made.choice(ANNOTATIONS)}
    return rule


def _document(made: random.Random, folder: Path) -> dict[str, Any]:
    groups: list[dict[str, Any]] = []
    for number in range(made.randint(1, 3)):
        record = {"record": f"r{number}", "expr": made.choice(EXPRESSIONS)}
        rules = [record, _alert(made, number)]
        made.shuffle(rules)
        groups.append({"name": f"g{number}", "interval": "7m", "rules": rules})
    (folder / "rules.json").write_text(json.dumps({"groups": groups}))
    times = [f"{made.randint(0, 40) * 15}s" for _ in range(4)]
    test = {
        "interval": "61s",
        "input_series": [
            {
                "series": series,
                "values": " ".join(["_", *made.choices(VALUES, k=made.randint(1, 4))]),
            }
            for series in SERIES
        ],
        "alert_rule_test": [
            {"eval_time": time, "alertname": f"A{number}"}
            for number in range(len(groups))
            for time in times
        ],
        "promql_expr_test": [
            {"expr": expr, "eval_time": time}
            for time in times
            for expr in made.sample(EXPRESSIONS, 3)
        ],
    }
    return {
        "rule_files": ["rules.json"],
        "evaluation_interval": made.choice(["1m", "30s", "2m", "45s"]),
        "group_eval_order": [group["name"] for group in groups],
        "tests": [test],
    }


def _simulated(path: Path) -> Simulation:
    suite = load_suite(path)
    groups = load_groups(suite, RunOptions())
    return simulate(suite.scenarios[0], groups, suite.evaluation_interval_ms)


def _expect_what_is(document: dict[str, Any], path: Path) -> None:
    """Write what we find as what is expected."""
    path.write_text(json.dumps(document))
    simulation = _simulated(path)
    test, scenario = document["tests"][0], simulation.scenario
    for written, alert_check in zip(test["alert_rule_test"], scenario.alert_checks, strict=True):
        firing = simulation.firing_at(alert_check.eval_time_ms, alert_check.alertname)
        written["exp_alerts"] = [
            {"exp_labels": alert.labels.to_dict(), "exp_annotations": dict(alert.annotations)}
            for alert in firing
        ]
    found = run_file(path)
    differences = {failure.span: failure.differences for failure in found.failures}
    for written, check in zip(test["promql_expr_test"], scenario.expression_checks, strict=True):
        got = [one.got for one in differences.get(check.span, ()) if one.got is not None]
        written["exp_samples"] = [_sample(text) for text in got]
    path.write_text(json.dumps(document))


def _sample(text: str) -> dict[str, Any]:
    labels, _, value = text.rpartition(" ")
    return {"labels": labels, "value": float(value)}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("seed", range(12))
def test_promtool_finds_what_we_find(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    document = _document(random.Random(seed), tmp_path)
    _expect_what_is(document, path)
    verdict = run_file(path)
    command = ["promtool", "test", "rules", path.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode == 0) == (verdict.status == "passed"), done.stdout + done.stderr
