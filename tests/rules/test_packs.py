from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rules.durations import parse_duration
from rules.loader import load_file, load_source
from rules.model import AlertingRule
from rules.packs import shipped
from rules.portable import portability
from rules.source import Source
from rules.templates.expand import TemplateData, expand

ROOT = Path(__file__).resolve().parents[2]
ALERTS = [
    (path, rule)
    for path in shipped()
    for group in load_file(path).file.groups  # type: ignore[union-attr]
    for rule in group.rules
    if isinstance(rule, AlertingRule)
]
# What asks for functions that Prometheus does not have.
STATISTICAL = [path for path in shipped() if path.name == "baseline.yaml"]
PORTABLE = [path for path in shipped() if path not in STATISTICAL]

LITERAL = """\
groups:
  - name: literal
    rules:
      - alert: Retransmits
        expr: sum(rate(tcp_retrans_total[5m])) by (task_id) > 0.5
        for: 5m
      - alert: Waiting
        expr: avg(gpu_utilization) by (task_id) < 60 and sum(comm_wait_ratio) by (task_id) > 0.3
        for: 10m
"""


def test_the_two_literal_rules_of_the_field_load() -> None:
    loaded = load_source(Source("literal.yaml", LITERAL))
    assert loaded.problems == ()
    assert loaded.file is not None
    retransmits, waiting = loaded.file.groups[0].rules
    assert isinstance(retransmits, AlertingRule)
    assert isinstance(waiting, AlertingRule)
    assert (retransmits.for_ms, waiting.for_ms) == (300_000, 600_000)


@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).name)
def test_a_shipped_file_has_no_problem_and_is_portable_but_for_functions_of_ours(
    path: Path,
) -> None:
    loaded = load_file(path)
    assert loaded.problems == ()
    assert loaded.file is not None
    found = portability(loaded.file)
    assert bool(found) == (path in STATISTICAL)
    assert all("is stallwatch's own" in problem.message for problem in found)


@pytest.mark.parametrize("path", PORTABLE, ids=lambda path: Path(path).name)
def test_promtool_takes_a_shipped_file(path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("name", ["comm", "gpu", "self"])
def test_a_shipped_file_alerts_when_it_must_and_only_then(name: str) -> None:
    """The cases are promtool unit tests; they read as a description of the rules."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [promtool, "test", "rules", f"{name}.test.yaml"],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parent / "packs",
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(("path", "rule"), ALERTS, ids=lambda value: getattr(value, "name", ""))
def test_a_shipped_alert_says_what_why_and_what_to_do(path: Path, rule: AlertingRule) -> None:
    tiers = {"comm": "1", "gpu": "2", "process": "1", "self": "0", "baseline": "12"}
    assert rule.labels["tier"] in tiers[path.stem]
    assert rule.labels["severity"] in {"warning", "critical"}
    assert set(rule.annotations) == {"summary", "description", "runbook_url"}
    data = TemplateData({"task_id": "slurm:7.0", "probe": "gpu", "reason": "map_full"}, 0.52)
    for text in rule.annotations.values():
        shown = expand(text, data)
        assert "<no value>" not in shown
        assert "%!" not in shown
    assert len(expand(rule.annotations["summary"], data)) < 100
    assert (ROOT / rule.annotations["runbook_url"]).is_file()


def test_every_runbook_belongs_to_a_shipped_alert() -> None:
    named = {rule.annotations["runbook_url"] for _, rule in ALERTS}
    written = {f"docs/runbooks/{page.name}" for page in (ROOT / "docs/runbooks").glob("*.md")}
    assert named == written


def test_durations_in_the_words_of_an_alert_are_those_of_its_expression() -> None:
    for _, rule in ALERTS:
        words = " ".join(rule.annotations.values())
        spoken = {parse_duration(word) for word in re.findall(r"\b\d+[smh]\b", words)}
        meant = {parse_duration(w) for w in re.findall(r"\b\d+[smh]\b", rule.expression.text)}
        assert spoken <= meant, rule.name
