from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.alerts.alert import Alert, AlertState
from engine.alerts.fingerprint import fingerprint
from engine.evidence import EvidenceCollector, about_waits
from engine.flush import TaskEvent
from engine.labels import Labels
from engine.pipeline.replay import replay
from engine.store import Store

if TYPE_CHECKING:
    from engine.alerts.alert import EvidenceEntry
    from tests.engine.conftest import Data, Rules, RunLive

ALERT = Alert(
    Labels.of(alertname="Waiting", task_id="a"),
    {},
    AlertState.FIRING,
    1.0,
    active_at_ms=400_000,
    fired_at_ms=400_000,
    last_evaluation_ms=430_000,
)


def event(
    second: float,
    *,
    flush: int | None = None,
    rank: str = "0",
    pid: int = 7,
    kind: str = "",
    **more: str | float,
) -> TaskEvent:
    fields: dict[str, str | float] = {
        "comm": "python",
        "src": "10.0.0.1",
        "sport": 1,
        "dst": "10.0.0.2",
        "dport": 2,
    }
    flush_ms = (int(-(-second // 10) * 10) if flush is None else flush) * 1000
    return TaskEvent(
        int(second * 1000),
        flush_ms,
        kind or "tcp_retransmit",
        "n0",
        "a",
        rank,
        pid,
        tuple({**(fields if not kind else {}), **more}.items()),
    )


def evidence(
    rules: Rules, data: Data, alert: Alert = ALERT, expr: str = "tcp_retrans_total"
) -> tuple[EvidenceEntry, ...]:
    source = data.dataset()
    collector = EvidenceCollector(rules.alert("Waiting", expr))
    return collector.collect([alert], source, source).get(alert.labels, ())


def test_retransmits_are_summed_by_connection_most_first(rules: Rules, data: Data) -> None:
    data.events = [event(401, sport=1), event(402, sport=2), event(403, sport=2)]
    assert [(entry["sport"], entry["retransmits"]) for entry in evidence(rules, data)] == [
        (2, 2),
        (1, 1),
    ]
    assert evidence(rules, data)[0] == {
        "rank": "0",
        "pid": 7,
        "comm": "python",
        "src": "10.0.0.1",
        "sport": 2,
        "dst": "10.0.0.2",
        "dport": 2,
        "retransmits": 2,
        "first": 402.0,
        "last": 403.0,
    }


def test_equal_counts_come_by_rank_and_pid_whatever_the_order_of_events(
    rules: Rules, data: Data
) -> None:
    data.events = [
        event(401 + i, rank=rank, pid=pid)
        for i, (rank, pid) in enumerate([("1", 100), ("0", 20), ("0", 3)])
    ]
    expected = [("0", 3), ("0", 20), ("1", 100)]
    assert [(entry["rank"], entry["pid"]) for entry in evidence(rules, data)] == expected
    data.events.reverse()
    assert [(entry["rank"], entry["pid"]) for entry in evidence(rules, data)] == expected


def test_there_are_five_entries_at_most(rules: Rules, data: Data) -> None:
    data.events = [event(401, sport=port) for port in range(9)]
    assert len(evidence(rules, data)) == 5


def test_the_window_begins_five_minutes_before_the_alert_and_ends_now(
    rules: Rules, data: Data
) -> None:
    data.events = [
        event(99.999, sport=1),
        event(100, sport=2),
        event(430, sport=3),
        event(429, flush=440, sport=4),
        event(430.001, flush=430, sport=5),
    ]
    assert [entry["sport"] for entry in evidence(rules, data)] == [2, 3]


def test_slow_calls_follow_connections_most_seconds_first(rules: Rules, data: Data) -> None:
    data.events = [
        event(401, kind="slow_call", call="cudaMemcpy", seconds=0.5),
        event(402, kind="slow_call", call="cudaMalloc", seconds=2.0),
        event(403, kind="slow_call", call="cudaMemcpy", seconds=0.25),
        event(404),
    ]
    shown = evidence(rules, data)
    assert [entry.get("call") for entry in shown] == [None, "cudaMalloc", "cudaMemcpy"]
    assert shown[2] == {
        "rank": "0",
        "pid": 7,
        "call": "cudaMemcpy",
        "calls": 2,
        "seconds": 0.75,
        "first": 401.0,
        "last": 403.0,
    }


@pytest.mark.parametrize(
    ("expr", "tier", "expected"),
    [
        ("avg by (task_id) (comm_wait_ratio) > 0.3", "", True),
        ("gpu_utilization < 60 and on (task_id) step_comm_wait_ratio > 0.3", "", True),
        ("gpu_utilization < 60", "2", True),
        ("rate(tcp_retrans_total[5m]) > 0.5", "1", False),
    ],
)
def test_how_long_each_rank_waited_explains_tier_2_and_alerts_about_waiting(
    rules: Rules, expr: str, tier: str, expected: bool
) -> None:
    assert about_waits(rules.alert("A", expr, labels={"tier": tier})) is expected


def test_the_waits_are_each_ranks_mean_while_the_alert_is_active_worst_first(
    rules: Rules, data: Data
) -> None:
    ratio = Labels.of(__name__="comm_wait_ratio", task_id="a")
    data.add(ratio.merged({"rank": "0"}), 390, [0.0, 0.25, 0.5, 0.75, 0.5, 1.0])
    data.add(ratio.merged({"rank": "1"}), 390, [0.0, 0.9, 0.9, 0.9, 0.9])
    data.add(ratio.merged({"task_id": "b"}), 390, [1.0] * 5)
    assert evidence(rules, data, expr="comm_wait_ratio > 0.3") == (
        {"rank": "1", "comm_wait_ratio": 0.9},
        {"rank": "0", "comm_wait_ratio": 0.5},
    )


def test_an_alert_of_no_task_has_no_evidence(rules: Rules, data: Data) -> None:
    data.events = [event(401)]
    assert evidence(rules, data, replace(ALERT, labels=Labels.of(alertname="Waiting"))) == ()


def test_evidence_is_no_part_of_the_fingerprint() -> None:
    with_evidence = replace(ALERT, evidence=({"rank": "0"},))
    assert fingerprint(with_evidence.labels) == fingerprint(ALERT.labels)


def test_a_window_that_forgets_gives_what_a_replay_of_everything_gives(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    data.add(Labels.of(__name__="comm_wait_ratio", task_id="a", rank="0"), 0, [0.1] + [0.5] * 99)
    data.events = [event(20 + number * 1.5, sport=number % 7) for number in range(600)]
    group = rules.group(rules.alert("Waiting", "comm_wait_ratio > 0.3", for_=60), interval=10)
    live = run_live([group], data, end=900, store=Store(max_events=50))
    result = replay([rules.file(group)], data.dataset(), 0, 900_000)
    assert list(result.alerts) == live.alerts
    assert sum(int(entry["retransmits"]) for entry in result.alerts[0].evidence) > 400


def test_a_killed_process_comes_first_whatever_retransmitted_because_of_it(
    rules: Rules, data: Data
) -> None:
    data.events = [
        event(401, sport=1),
        event(403, kind="oom_kill", rank="3", pid=9, signal="SIGKILL"),
        event(404, kind="process_killed", rank="3", pid=9, signal="SIGKILL", sender_comm="kernel"),
    ]
    first, second, third = evidence(rules, data)
    assert first == {
        "rank": "3",
        "pid": 9,
        "signal": "SIGKILL",
        "event": "oom_kill",
        "first": 403.0,
        "last": 403.0,
    }
    assert (second["event"], second["sender_comm"]) == ("process_killed", "kernel")
    assert third["retransmits"] == 1
