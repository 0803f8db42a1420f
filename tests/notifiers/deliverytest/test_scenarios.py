"""Tests of delivery as they are written, and what is said when they fail."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from engine.cli.main import main
from tests.notifiers.deliverytest.written import HEAD, passes, said

pytestmark = pytest.mark.usefixtures("folder")


def test_alerts_of_a_group_are_told_together_their_ends_and_repeats_too() -> None:
    assert passes("""
        until: 3h
        alerts:
          - {labels: {alertname: LinkDown, node: n1}, ends: 10m}
          - {labels: {alertname: LinkDown, node: n2}, starts: 10s, ends: 2h}
        messages:
          - {receiver: oncall, at: 30s, firing: [{node: n1}, {node: n2}]}
          - {receiver: oncall, at: 10m30s, firing: [{node: n2}], resolved: [{node: n1}]}
          - {receiver: oncall, at: 1h15m30s, firing: 1, reason: repeat interval elapsed}
          - {receiver: oncall, at: 2h30s, resolved: ['node=~"n[23]"']}
    """)


def test_an_alert_may_be_told_by_matchers_and_by_the_labels_that_are_sent() -> None:
    assert passes("""
        alerts: [{labels: {alertname: A, node: n1}}, {labels: {alertname: A, node: n2}}]
        messages:
          - receiver: oncall
            at: 30s
            firing: ['alertname="A",node!="n1"', {cluster: c1}]
    """)


def test_silences_hold_between_their_times_and_what_is_owed_is_told_after() -> None:
    assert passes("""
        alerts: [{labels: {alertname: A}, ends: 8m}, {labels: {alertname: B}}]
        silences:
          - {matchers: [alertname="A"], starts: 5m, ends: 12m}
          - {matchers: 'alertname=~"B|C"'}
        messages:
          - {receiver: oncall, at: 30s, firing: [{alertname: A}]}
          - {receiver: oncall, at: 15m30s, resolved: [{alertname: A}]}
    """)


def test_a_route_is_quiet_at_its_times() -> None:
    test = """
        start_timestamp: {start}
        until: 10m
        alerts: [{{labels: {{alertname: A, team: net}}}}]
        messages: {messages}
    """
    told = "[{receiver: network, at: 30s, firing: 1}]"
    assert passes(test.format(start="2026-03-02T21:50:00Z", messages=told))
    assert passes(test.format(start="2026-03-02T22:00:00Z", messages="[]"))


def test_inhibition_keeps_back_and_hands_back() -> None:
    assert passes("""
        alerts:
          - {labels: {alertname: Hot, node: n1, severity: critical}, ends: 7m}
          - {labels: {alertname: Warm, node: n1, severity: warning}}
        messages:
          - {receiver: oncall, at: 30s, firing: [{alertname: Hot}]}
          - {receiver: oncall, at: 10m30s, resolved: [{alertname: Hot}]}
          - {receiver: oncall, at: 10m30s, firing: [{alertname: Warm}]}
    """)


def test_integrations_of_a_receiver_that_are_told_alike_are_one_message() -> None:
    assert passes("""
        alerts: [{labels: {alertname: A, team: net}, ends: 1m}]
        messages:
          - {receiver: network, at: 30s, firing: 1}
          - {receiver: network, at: 5m30s, resolved: 1}
    """)
    shown = said("""
        alerts: [{labels: {alertname: A, team: net}, ends: 1m}]
        messages:
          - {receiver: network, integration: webhook/1, at: 30s, firing: 1}
          - {receiver: network, integration: webhook/1, at: 5m30s, resolved: 1}
    """)
    assert "message to network at 5m30s in test 'unnamed#0': it did not come" in shown


def test_only_receivers_that_are_named_are_looked_at() -> None:
    assert passes("""
        receivers: [network]
        alerts: [{labels: {alertname: A}}, {labels: {alertname: A, team: net}}]
        messages: [{receiver: network, at: 30s, firing: 1}]
    """)


def test_alerts_may_come_from_rules_over_series() -> None:
    Path("rules.yaml").write_text("""
groups:
  - name: a
    rules:
      - alert: LinkDown
        expr: link_up == 0
        for: 2m
        labels: {severity: critical}
""")
    head = "config: stallwatch.yaml\nrule_files: [rules.yaml]\nevaluation_interval: 30s\n"
    assert passes(
        """
        interval: 1m
        input_series: [{series: 'link_up{node="n1"}', values: 1x4 0x9 1x5 }]
        messages:
          # Down from 5m on, fires at 7m, is up again at 15m.
          - {receiver: oncall, at: 7m30s, firing: ['alertname=LinkDown,node=n1,severity=critical']}
          - {receiver: oncall, at: 17m30s, resolved: [{alertname: LinkDown}]}
        """,
        head=head + "delivery_tests:\n",
    )


def test_alerts_of_rules_and_stated_ones_inhibit_each_other() -> None:
    Path("rules.yaml").write_text("groups: [{name: a, rules: [{alert: Warm, expr: t > 1, "
                                  "labels: {severity: warning}}]}]\n")  # fmt: skip
    assert passes(
        """
        input_series: [{series: 't{node="n1"}', values: 2x5}]
        alerts: [{labels: {alertname: Hot, node: n1, severity: critical}}]
        messages: [{receiver: oncall, at: 30s, firing: [{alertname: Hot}]}]
        """,
        head="config: stallwatch.yaml\nrule_files: [rules.yaml]\ndelivery_tests:\n",
    )


def test_a_rule_that_fails_fails_the_test() -> None:
    Path("rules.yaml").write_text("groups: [{name: a, rules: [{alert: A, expr: a + on() b}]}]\n")
    shown = said(
        """
        input_series: [{series: 'a{n="1"}', values: 2x5}, {series: 'a{n="2"}', values: 2x5},
                       {series: b, values: 1x5}]
        messages: []
        """,
        head="config: stallwatch.yaml\nrule_files: [rules.yaml]\ndelivery_tests:\n",
    )
    assert "rules.yaml:1:47: rule A at 0s (" in shown
    assert "cannot be evaluated" in shown


def test_a_message_that_is_missing_one_that_differs_and_one_too_many() -> None:
    shown = said("""
        name: three faults
        until: 20m
        alerts:
          - {labels: {alertname: A, node: n1}, ends: 7m}
          - {labels: {alertname: A, node: n2}}
          - {labels: {alertname: B, team: net}, ends: 20s}
        messages:
          - {receiver: oncall, at: 30s, firing: [{node: n1}]}
          - {receiver: oncall, at: 5m30s, firing: [{node: n2}], resolved: [{node: n1}]}
          - {receiver: network, at: 30s, firing: [{alertname: B}]}
    """)
    assert shown == textwrap.dedent("""\
        t.yaml:11:10: message to oncall at 30s in test 'three faults': it is another one
                  - {receiver: oncall, at: 30s, firing: [{node: n1}]}
                     ^^^^^^^^
              expected  30s  oncall  1 firing {node="n1"}
              got       30s  oncall  2 firing {alertname="A", cluster="c1", node="n1"} {alertname="A", cluster="c1", node="n2"}  (first notification)
                firing
                  - (none)
                  + {alertname="A", cluster="c1", node="n2"}
        t.yaml:12:10: message to oncall at 5m30s in test 'three faults': it came at 10m30s
                  - {receiver: oncall, at: 5m30s, firing: [{node: n2}], resolved: [{node: n1}]}
                     ^^^^^^^^
              expected  5m30s  oncall  1 firing {node="n2"}; 1 resolved {node="n1"}
              got       10m30s  oncall  1 firing {alertname="A", cluster="c1", node="n2"}; 1 resolved {alertname="A", cluster="c1", node="n1"}  (some alerts resolved)
                at
                  - 5m30s
                  + 10m30s
        t.yaml:13:10: message to network at 30s in test 'three faults': it did not come
                  - {receiver: network, at: 30s, firing: [{alertname: B}]}
                     ^^^^^^^^
            - expected  30s  network  1 firing {alertname="B"}
            hint: {alertname="B", cluster="c1", team="net"} fires from 0s to 20s
        t.yaml: FAILED: 3 failures in 1 of 1 test""")  # noqa: E501 - as it is shown


def test_what_nobody_expected_is_listed_for_each_receiver() -> None:
    shown = said("""
        until: 5h
        alerts: [{labels: {alertname: A}}, {labels: {alertname: B, team: net}, ends: 1m}]
        messages: []
    """)
    assert "t.yaml:6:5: messages to oncall in test 'unnamed#0': 5 were not expected" in shown
    assert '+ got       4h20m30s  oncall  1 firing {alertname="A", cluster="c1"}  (repeat' in shown
    assert "messages to network in test 'unnamed#0': 2 were not expected" in shown


def test_a_group_of_thousands_is_counted_not_shown() -> None:
    many = ", ".join(f"{{labels: {{alertname: A, node: n{node}}}}}" for node in range(2000))
    shown = said(f"""
        alerts: [{many}]
        messages: [{{receiver: oncall, at: 30s, firing: 1999}}]
    """)
    assert "2000: {alertname=" in shown
    assert "and 1990 more" in shown
    assert len(shown) < 3000
    assert passes(f"""
        alerts: [{many}]
        messages: [{{receiver: oncall, at: 30s, firing: 2000}}]
    """)


def test_the_exit_status_and_the_formats_are_those_of_unit_tests(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alerts = "    alerts: [{labels: {alertname: A}}]\n"
    good = (
        f"{HEAD}  - name: good\n{alerts}    messages: [{{receiver: oncall, at: 30s, firing: 1}}]\n"
    )
    (folder / "good.yaml").write_text(good)
    (folder / "late.yaml").write_text(good.replace("30s", "31s"))
    (folder / "bad.yaml").write_text(good.replace("firing", "fire"))
    assert main(["test", "good.yaml"]) == 0
    assert capsys.readouterr().out == "good.yaml: SUCCESS: 1 test, 2 checks\n"
    assert main(["test", "good.yaml", "late.yaml"]) == 1
    assert main(["test", "good.yaml", "late.yaml", "bad.yaml"]) == 2
    capsys.readouterr()
    assert main(["test", "late.yaml", "--format", "json"]) == 1
    (file,) = json.loads(capsys.readouterr().out)["files"]
    (failure,) = file["tests"][0]["failures"]
    assert (failure["line"], failure["column"]) == (5, 17)
    assert failure["message"] == "it came at 30s"
    assert failure["differences"][0]["fields"] == [
        {"kind": "part", "name": "at", "expected": "31s", "got": "30s"}
    ]
    assert main(["test", "late.yaml", "--format", "junit"]) == 1
    assert 'failure message="message to oncall at 31s: it came at 30s"' in capsys.readouterr().out


def test_a_folder_has_both_kinds_of_tests_and_a_name_chooses(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rules.test.yaml").write_text("tests: [{name: a rule}]\n")
    (folder / "delivery.test.yaml").write_text(f"{HEAD}  - {{name: a route, messages: []}}\n")
    assert main(["test", "."]) == 0
    assert capsys.readouterr().out.count("SUCCESS: 1 test") == 2
    assert main(["test", ".", "--run", "route"]) == 0
    assert "rules.test.yaml: SUCCESS: 0 tests" in capsys.readouterr().out


def test_an_alertmanager_yml_is_tested_as_it_is(folder: Path) -> None:
    (folder / "alertmanager.yml").write_text("""
receivers:
  - name: pager
    pagerduty_configs: [{routing_key: abcdefabcdefabcdefabcdefabcdefab}]
route: {receiver: pager, group_wait: 10s}
""")
    assert passes(
        """
        alerts: [{labels: {alertname: A}}]
        messages: [{receiver: pager, at: 10s, firing: 1}]
        """,
        head="alertmanager_config: alertmanager.yml\ndelivery_tests:\n",
    )


def test_notify_test_says_where_such_files_are_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sends: whoever takes it for the other one shall not find out by a page."""
    (folder / "t.yaml").write_text(HEAD)
    assert main(["notify", "test", "t.yaml"]) == 2
    assert "hint: tests of delivery are run by 'stallwatch test t.yaml'" in capsys.readouterr().err
