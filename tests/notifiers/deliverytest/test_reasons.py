"""Why an expected message did not come, as it is hinted at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.notifiers.deliverytest.written import said

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize(
    ("alerts", "more", "receiver", "hint"),
    [
        ("{alertname: A}", "silences: [{matchers: [alertname=A]}]", "oncall",
         '{alertname="A", cluster="c1"} was kept back at 30s: silenced, line 5'),
        ("{alertname: A, team: net}", "start_timestamp: 2026-03-02T22:00:00Z", "network",
         "was kept back at 30s: its route is muted by nights"),
        ("{alertname: A, node: n, severity: warning}, {alertname: B, node: n, severity: critical}",
         "", "oncall", 'inhibited by {alertname="B", cluster="c1", node="n", severity="critical"}'),
        ("{alertname: Aa, node: n}", "", "oncall", 'no alert of this test is {alertname="A"}'),
        ("{alertname: A, team: net}", "", "oncall", "is routed to network"),
        ("{alertname: A, team: none}", "", "nobody", "'nobody' has no integration"),
        ("{alertname: A, team: test}", "", "oncall", "is dropped by 'alert_relabel_configs'"),
    ],
)  # fmt: skip
def test_a_hint_says_why_a_message_did_not_come(
    alerts: str, more: str, receiver: str, hint: str
) -> None:
    stated = alerts.replace("{", "{labels: {").replace("}", "}}")
    shown = said(f"""
        alerts: [{stated}]
        {more or "silences: []"}
        messages: [{{receiver: {receiver}, at: 30s, firing: [{{alertname: A}}]}}]
    """)
    assert f"message to {receiver} at 30s in test 'unnamed#0': it did not come" in shown
    assert hint in shown


def test_a_hint_names_a_rate_limit(folder: Path) -> None:
    text = (folder / "stallwatch.yaml").read_text()
    limit = "name: oncall\n    rate_limit: {messages: 1, per: 1h}\n"
    (folder / "stallwatch.yaml").write_text(text.replace("name: oncall\n", limit))
    shown = said("""
        alerts: [{labels: {alertname: A}}, {labels: {alertname: B}, starts: 1m}]
        messages:
          - {receiver: oncall, at: 30s, firing: 1}
          - {receiver: oncall, at: 1m30s, firing: 1}
    """)
    assert "message to oncall at 1m30s in test 'unnamed#0': it did not come" in shown
    assert "hint: its 'rate_limit' held messages back, 1 in this test" in shown
