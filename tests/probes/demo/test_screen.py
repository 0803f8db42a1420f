"""What the demo's screen shows, on a terminal and elsewhere."""

from __future__ import annotations

import io
from dataclasses import replace

from engine.alerts.alert import Alert, AlertState
from engine.labels import Labels
from probes.demo.screen import Screen, alert_lines
from probes.demo.story import Story

ALERT = Alert(
    labels=Labels({"alertname": "TaskRetransmits", "task_id": "demo-1", "tier": "1"}),
    annotations={"summary": "Task demo-1 loses packets", "runbook_url": "docs/runbooks/x.md"},
    state=AlertState.PENDING,
    value=3.0,
    active_at_ms=1_000_000,
    last_evaluation_ms=1_012_000,
    evidence=(
        {
            "rank": "0",
            "pid": 17,
            "comm": "python",
            "src": "10.98.0.1",
            "sport": 4000,
            "dst": "10.98.0.2",
            "dport": 29600,
            "retransmits": 12,
            "first": 1000.0,
            "last": 1012.0,
        },
    ),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_moving_line_makes_way_for_a_dated_one() -> None:
    out = Terminal()
    screen = Screen(out)
    Story(screen, "demo-1").status(3.0, 19.5, ALERT)
    screen.say(1_012_000, "loss", "more")
    moving, dated = out.getvalue().split("\r\x1b[2K")[1:]
    assert moving.strip() == "19.5 steps/s, 3.0 retransmits/s, pending, active for 12 s"
    assert dated == f"1970-01-01T00:16:52Z  loss\n{' ' * 22}more\n"


def test_without_a_terminal_there_is_no_moving_line() -> None:
    out = io.StringIO()
    Story(Screen(out), "demo-1").status(3.0, 19.5, ALERT)
    assert out.getvalue() == ""


def test_what_a_job_calls_itself_does_not_steer_the_terminal() -> None:
    evil = {**ALERT.evidence[0], "comm": "py\x1b[2Jthon"}
    alert = replace(ALERT, annotations={"summary": "a\x1b]0;b"}, evidence=(evil,))
    assert not [line for line in alert_lines(alert) if "\x1b" in line]


def test_an_alert_is_shown_with_its_evidence_as_a_table() -> None:
    assert alert_lines(ALERT) == [
        "Task demo-1 loses packets",
        "labels: task_id=demo-1, tier=1",
        "runbook: docs/runbooks/x.md",
        "",
        "RANK  PROCESS     CONNECTION                        RETRANSMITS",
        "0     python[17]  10.98.0.1:4000 → 10.98.0.2:29600  12",
        "",
    ]


def test_an_alert_about_something_else_takes_one_line() -> None:
    out = io.StringIO()
    Story(Screen(out), "demo-1").other(ALERT)
    assert out.getvalue() == (
        "1970-01-01T00:16:40Z  "
        "beside the demo: pending TaskRetransmits: Task demo-1 loses packets\n"
    )
