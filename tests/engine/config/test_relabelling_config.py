"""`alert_relabel_configs`, as Prometheus spells and refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.alerts.relabelling import RelabelRule
from engine.config.loader import load_config, load_source
from rules.source import ProblemsError, Source

FOLDER = Path(__file__).parent / "relabelling"


def test_steps_are_read_with_prometheus_defaults(tmp_path: Path) -> None:
    file = tmp_path / "stallwatch.yaml"
    file.write_text(
        "alert_relabel_configs:\n"
        "  - {action: LabelDrop, regex: node|replica}\n"
        "  - source_labels: [cluster, task_id]\n"
        "    target_label: job\n"
        "  - {source_labels: [a], separator: '', regex: 1, target_label: b, replacement: ''}\n"
    )
    assert load_config(file).alert_relabel_configs == (
        RelabelRule("labeldrop", regex="node|replica"),
        RelabelRule(source_labels=("cluster", "task_id"), target_label="job"),
        RelabelRule(
            source_labels=("a",), separator="", regex="1", target_label="b", replacement=""
        ),
    )


def test_what_prometheus_refuses_is_refused_at_its_place() -> None:
    source = Source("refused.yaml", (FOLDER / "refused.yaml").read_text())
    config, problems = load_source(source, FOLDER)
    assert config is None
    said = "".join(f"{problem.render()}\n" for problem in problems)
    assert said == (FOLDER / "refused.expected").read_text()


def test_it_is_read_beside_an_alertmanager_yml(tmp_path: Path) -> None:
    (tmp_path / "alertmanager.yml").write_text("route: {receiver: a}\nreceivers: [{name: a}]\n")
    file = tmp_path / "stallwatch.yaml"
    file.write_text(
        "alertmanager_config: alertmanager.yml\n"
        "alert_relabel_configs: [{action: labeldrop, regex: node}]\n"
    )
    assert load_config(file).alert_relabel_configs[0].regex == "node"
    file.write_text("alert_relabel_configs: {action: labeldrop}\n")
    with pytest.raises(ProblemsError, match="must be a list"):
        load_config(file)
