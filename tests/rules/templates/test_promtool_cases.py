"""Templates as promtool renders them: promtool_cases.yaml, to the character.

The expected texts are promtool's own; where it is installed a test asks it again.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.promql.strings import unquote
from rules.templates import Sample, TemplateError
from rules.templates.expand import TemplateData, expand

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "promtool_cases.yaml").read_text(encoding="utf-8")
)
LABELS = {"instance": "node-1:9100", "job": "node", "n": "3"}
SERIES = {
    "q": [({"instance": "a"}, 2.0), ({"instance": "b"}, 1.0)],
    "console_url": [({"url": "http://c"}, 1.0)],
}
SCALARS = {"1+1": 2.0}
ALERT = re.compile(
    r"alertname: A(\d+), time: 0s,.*?got:\[\s*0:\s*Labels:\{.*?\}\n"
    r'\s*Annotations:\{t=("(?:[^"\\]|\\.)*")\}',
    re.DOTALL,
)


def _query(expression: str) -> list[Sample]:
    if expression in SCALARS:
        return [Sample({}, SCALARS[expression])]
    if "(" in expression:
        raise TemplateError("a parse error")
    found = SERIES.get(expression, [])
    return [Sample({"__name__": expression, **labels}, value) for labels, value in found]


def _value(case: dict[str, Any]) -> float:
    return float(case.get("value", 0.5))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["text"])[:60])
def test_a_template_gives_what_promtool_gives(case: dict[str, Any]) -> None:
    data = TemplateData(LABELS, _value(case), {"region": "eu"}, "https://alerts.example/p")
    if "error" in case:
        with pytest.raises(TemplateError):
            expand(case["text"], data, _query)
        return
    assert expand(case["text"], data, _query) == case["expected"]


def _spelled(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())


def _rendered(cases: list[dict[str, Any]], folder: Path) -> dict[int, str]:
    """What promtool makes of each template, by position; it refuses a file as a whole."""
    rules = [
        {"alert": f"A{index}", "expr": f"v{index} * 1", "annotations": {"t": case["text"]}}
        for index, case in enumerate(cases)
    ]
    series = [
        {"series": f"v{index}{{{_spelled(LABELS)}}}", "values": repr(_value(case))}
        for index, case in enumerate(cases)
    ]
    series += [
        {"series": f"{name}{{{_spelled(labels)}}}", "values": str(value)}
        for name, found in SERIES.items()
        for labels, value in found
    ]
    test = {
        "input_series": series,
        "external_labels": {"region": "eu"},
        "external_url": "https://alerts.example/p",
        "alert_rule_test": [
            {"eval_time": "0s", "alertname": f"A{index}"} for index in range(len(cases))
        ],
    }
    (folder / "rules.json").write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    (folder / "test.json").write_text(json.dumps({"rule_files": ["rules.json"], "tests": [test]}))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return {int(found[1]): unquote(found[2]) for found in ALERT.finditer(done.stdout + done.stderr)}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_still_says_so(tmp_path: Path) -> None:
    readable = [case for case in CASES if case.get("error") != "parse"]
    rendered = _rendered(readable, tmp_path)
    assert len(rendered) == len(readable)
    for index, case in enumerate(readable):
        if "error" in case:
            assert rendered[index].startswith("<error expanding template: "), case
        else:
            assert rendered[index] == case["expected"], case
