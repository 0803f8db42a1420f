"""`stallwatch notify route`, alone and beside Alertmanager's amtool."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from engine.config.loader import load_config
from engine.labels import Labels
from notifiers.routing.tree import build_tree

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = """\
route:
  receiver: oncall
  group_by: [alertname, task_id]
  routes:
    - matchers: [tier="1"]
      receiver: archive
      group_by: ['...']
      group_wait: 0s
      continue: true
    - matchers: [team=~"net|fabric", tier!="2"]
      receiver: network
      group_interval: 1m
      routes:
        - match: {severity: critical}
          receiver: pager
          mute_time_intervals: [nights]
        - match_re: {severity: "info|"}
          receiver: archive
    - matchers: ['note="a b, \\"c\\""']
      receiver: pager
receivers: [{name: oncall}, {name: network}, {name: pager}, {name: archive}]
time_intervals: [{name: nights}]
"""
LABELS = [
    {},
    {"tier": "1"},
    {"team": "net"},
    {"team": "net", "tier": "1", "severity": "critical"},
    {"team": "fabric", "tier": "3", "severity": "warning"},
    {"team": "net", "tier": "2", "severity": "critical"},
    {"team": "fabric", "severity": "info", "tier": "1"},
    {"team": "networks"},
    {"note": 'a b, "c"', "alertname": "Slow"},
]


def test_an_alert_is_routed_by_the_labels_that_are_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stallwatch.yaml"
    path.write_text(
        "route: {receiver: a, group_by: [zone], routes: [{receiver: b, matchers: [zone=x]}]}\n"
        "receivers: [{name: a}, {name: b}]\n"
        "external_labels: {region: x}\n"
        "alert_relabel_configs:\n"
        "  - {source_labels: [region], target_label: zone}\n"
        "  - {action: drop, source_labels: [alertname], regex: Noise}\n"
    )
    command = ["notify", "route", "--config", str(path)]
    assert main([*command, "alertname=Slow"]) == 0
    assert 'group {zone="x"}' in capsys.readouterr().out
    assert main([*command, "alertname=Noise"]) == 0
    expected = "nobody: 'alert_relabel_configs' drops {alertname=\"Noise\"}\n"
    assert capsys.readouterr().out == expected


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "stallwatch.yaml"
    path.write_text(ROUTES)
    return str(path)


def test_an_alert_is_shown_where_it_goes(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    labels = ["team=net", 'tier="1"', "severity=critical", "alertname=Slow"]
    assert main(["notify", "route", "--config", config, *labels]) == 0
    assert (
        capsys.readouterr().out
        == """\
archive  by {}/{tier="1"}/0
    group {alertname="Slow",severity="critical",team="net",tier="1"}
    group_wait 0s, group_interval 5m, repeat_interval 4h
pager  by {}/{team=~"net|fabric",tier!="2"}/{severity="critical"}/0
    group {alertname="Slow"}
    group_wait 30s, group_interval 1m, repeat_interval 4h, mute_time_intervals nights
"""
    )


def test_the_tree_marks_the_routes_that_are_taken(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "route", "--config", config, "--tree", '{tier="1", team=net}']) == 0
    timers = "group_wait 30s, group_interval 1m, repeat_interval 4h"
    root = timers.replace("1m", "5m")
    by = "by alertname, task_id"
    assert capsys.readouterr().out.splitlines() == [
        f"  {{}}  oncall  ({by}, {root})",
        f'>   {{tier="1"}}  archive  (by all labels, {root.replace("30s", "0s")}, continue)',
        f'    {{team=~"net|fabric",tier!="2"}}  network  ({by}, {timers})',
        f'      {{severity="critical"}}  pager  ({by}, {timers}, mute_time_intervals nights)',
        f'>     {{severity=~"^(?:info|)$"}}  archive  ({by}, {timers})',
        f'    {{note="a b, \\"c\\""}}  pager  ({by}, {root})',
    ]


def test_json_has_seconds_and_the_group(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["notify", "route", "--config", config, "--format", "json"]
    assert main([*command, "tier=1", "task_id=slurm:7.0"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown == {
        "receiver": "archive",
        "route": '{}/{tier="1"}/0',
        "matchers": ['tier="1"'],
        "continue": True,
        "group_by": None,
        "group_wait": 0.0,
        "group_interval": 300.0,
        "repeat_interval": 14400.0,
        "mute_time_intervals": [],
        "active_time_intervals": [],
        "group": {"task_id": "slurm:7.0", "tier": "1"},
    }
    assert main([*command, "--tree", "team=net"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert [(one["receiver"], one["taken"]) for one in tree["routes"]] == [
        ("archive", False),
        ("network", False),
        ("pager", False),
    ]
    assert [one["taken"] for one in tree["routes"][1]["routes"]] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no labels to route\n    hint: an alert's labels are written NAME=VALUE"),
        (["alertname"], "expected = != =~ or !~ after the label's name\n    hint: an alert's"),
        (["tier!=1"], "'tier!=1' says what a label matches, not what it is"),
    ],
)
def test_labels_that_are_none_are_a_clear_error(
    config: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "route", "--config", config, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_who_is_told_may_be_verified(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["notify", "route", "--config", config, "tier=1", "team=net"]
    command += ["severity=high", "--verify-receivers"]
    assert main([*command, "archive,network"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*command, "network,archive"]) == 1
    said = "stallwatch: expected network, archive, routed to archive, network\n"
    assert capsys.readouterr().err == said


def test_an_alertmanager_yml_may_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With kinds of receivers that only such a file has."""
    path = tmp_path / "alertmanager.yml"
    key = "abcdefabcdefabcdefabcdefabcdefab"
    receivers = f"receivers: [{{name: pager, pagerduty_configs: [{{routing_key: {key}}}]}}]\n"
    path.write_text(f"{receivers}route: {{receiver: pager, group_by: ['...']}}\n")
    command = ["notify", "route", "--alertmanager-config", str(path), "a=b"]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith('pager  by {}\n    group {a="b"}\n')
    assert main([*command, "--config", str(path)]) == 2
    assert "give --config or --alertmanager-config" in capsys.readouterr().err
    path.write_text(receivers)
    assert main(command) == 2
    assert "an alertmanager.yml needs a 'route'" in capsys.readouterr().err
    path.write_text("- a list\n")
    assert main(command) == 2
    assert "alertmanager.yml:1:1: it is no alertmanager.yml" in capsys.readouterr().err


def test_a_lone_receiver_needs_no_route_to_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stallwatch.yaml").write_text("receivers: [{name: oncall}]\n")
    assert main(["notify", "route", "--config", str(tmp_path / "stallwatch.yaml"), "a=b"]) == 0
    assert capsys.readouterr().out.startswith('oncall  by {}\n    group {a="b"}\n')


def test_labels_are_for_routes_only(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notify", "dead", "--config", config, "tier=1"]) == 2
    assert "labels and --tree are for 'route'" in capsys.readouterr().err


def test_a_configuration_without_receivers_routes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stallwatch.yaml"
    path.write_text("cluster: a\n")
    assert main(["notify", "route", "--config", str(path), "a=b"]) == 2
    assert "the configuration has no receivers" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("amtool") is None, reason="needs amtool (prometheus-alertmanager)")
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_amtool_names_the_same_receivers(config: str, labels: dict[str, str]) -> None:
    route = load_config(config).route
    assert route is not None
    ours = [one.receiver for one in build_tree(route).match(Labels(labels))]
    texts = [f"{name}={json.dumps(value)}" for name, value in labels.items()]
    command = ["amtool", "config", "routes", "test", f"--config.file={config}", *texts]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip().split(",") == ours
