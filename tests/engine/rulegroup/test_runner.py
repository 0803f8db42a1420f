from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from engine.alerts.alert import AlertState
from engine.labels import Labels
from engine.pipeline.replay import replay
from engine.promql.engine import evaluate
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import GroupRunner, retire
from engine.rulegroup.state import after_downtime

if TYPE_CHECKING:
    from engine.promql.engine import Options
    from engine.promql.value import Axis, Result
    from engine.series import Queryable
    from rules.promql.ast import Expr
    from tests.engine.conftest import Data, Rules, RunLive

WAIT = Labels.of(__name__="wait", task_id="a")


def test_a_later_rule_sees_what_an_earlier_one_recorded_at_the_same_time(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(
        rules.record("twice", "wait * 2"), rules.alert("High", "twice > 5"), interval=10
    )
    live = run_live([group], data.add(WAIT, 0, [1, 2, 3, 4]), end=30)
    assert [alert.fired_at_ms for alert in live.transitions] == [20_000]


def test_an_earlier_rule_sees_only_what_a_later_one_recorded_before(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(
        rules.alert("High", "twice > 5"), rules.record("twice", "wait * 2"), interval=10
    )
    live = run_live([group], data.add(WAIT, 0, [1, 2, 3, 4]), end=30)
    assert [alert.fired_at_ms for alert in live.transitions] == [30_000]


def test_a_recorded_or_alerts_series_that_is_absent_gets_a_staleness_marker(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(
        rules.record("high", "wait > 1"), rules.alert("High", "wait > 1", for_=10), interval=10
    )
    live = run_live([group], data.add(WAIT, 0, [1, 2, 2, 1, 1]), end=40)
    assert live.written() == {
        'high{task_id="a"}': [(10, 2.0), (20, 2.0), (30, "stale")],
        'ALERTS{alertname="High", alertstate="pending", task_id="a"}': [(10, 1.0), (20, "stale")],
        'ALERTS{alertname="High", alertstate="firing", task_id="a"}': [(20, 1.0), (30, "stale")],
        'ALERTS_FOR_STATE{alertname="High", task_id="a"}': [(10, 10.0), (20, 10.0), (30, "stale")],
    }


def test_a_failed_evaluation_writes_nothing_and_changes_no_alert(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    other = Labels.of(__name__="wait", task_id="a", rank="1")
    data.add(WAIT, 0, [2, 2, 2, 2, 2]).add(other, 20, [2, "stale"])
    # At second 20 two series match one: the vector match fails, there and only there.
    expr = "wait * on (task_id) wait"
    group = rules.group(rules.record("square", expr), rules.alert("High", expr), interval=10)
    live = run_live([group], data, end=40)
    assert [(failure.rule, failure.time_ms) for failure in live.evaluations[2].failures] == [
        ("square", 20_000),
        ("High", 20_000),
    ]
    assert live.evaluations[2].samples == ()
    assert [time for time, _ in live.written()['square{task_id="a"}']] == [0, 10, 30, 40]
    (alert,) = live.alerts
    assert (alert.active_at_ms, alert.state) == (0, AlertState.FIRING)
    assert [status.health for status in live.runners[0].statuses] == ["ok", "ok"]


def test_what_fails_shows_in_the_status_with_its_reason(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    data.add(WAIT, 0, [2]).add(WAIT.merged({"rank": "1"}), 0, [2])
    group = rules.group(rules.record("sum", "wait", labels={"rank": "all"}), interval=10)
    (status,) = run_live([group], data, end=0).runners[0].statuses
    assert status.health == "err"
    assert "same labelset after applying rule labels" in status.last_error


@pytest.mark.parametrize("kind", ["record", "alert"])
def test_a_rule_over_its_limit_writes_nothing_and_sends_no_resolution(
    rules: Rules, data: Data, run_live: RunLive, kind: str
) -> None:
    data.add(WAIT, 0, [2, 2, 2]).add(WAIT.merged({"rank": "1"}), 10, [2, "stale"])
    rule = rules.record("high", "wait") if kind == "record" else rules.alert("High", "wait > 1")
    live = run_live([rules.group(rule, interval=10, limit=1)], data, end=20)
    (failure,) = live.evaluations[1].failures
    assert failure.message.startswith("exceeded limit of 1 with 2 ")
    assert live.evaluations[1].samples == ()
    assert all(alert.state is AlertState.FIRING for alert in live.transitions)
    if kind == "alert":
        assert [alert.active_at_ms for alert in live.transitions] == [0, 20_000]


def test_query_offset_shifts_the_query_and_the_samples_but_not_active_at(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(
        rules.record("high", "wait > 1"),
        rules.alert("High", "wait > 1"),
        interval=10,
        query_offset=20,
    )
    live = run_live([group], data.add(WAIT, 0, [1, 2, 1, 1, 1]), end=40)
    assert live.written()['high{task_id="a"}'] == [(10, 2.0), (20, "stale")]
    assert live.written()['ALERTS_FOR_STATE{alertname="High", task_id="a"}'] == [
        (10, 30.0),
        (20, "stale"),
    ]
    assert [alert.active_at_ms for alert in live.alerts] == [30_000]


def test_a_scalar_is_a_vector_of_one_element_without_labels(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(rules.record("now", "time()"), rules.alert("Always", "1"), interval=10)
    live = run_live([group], data, end=10)
    assert live.written()["now"] == [(0, 0.0), (10, 10.0)]
    assert [alert.labels for alert in live.alerts] == [Labels.of(alertname="Always")]


def test_a_fault_in_one_rule_leaves_the_others_running(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    def broken(expr: Expr, axis: Axis, queryable: Queryable, options: Options) -> Result:
        if str(expr).count("'bad'"):
            raise ZeroDivisionError("oops")
        return evaluate(expr, axis, queryable, options)

    group = rules.group(rules.record("a", "bad"), rules.record("b", "wait"), interval=10)
    options = GroupOptions(evaluate=broken)
    live = run_live([group], data.add(WAIT, 0, [2]), end=0, options=options)
    (failure,) = live.evaluations[0].failures
    assert re.fullmatch(
        r"internal error: ZeroDivisionError: oops \(rulegroup/test_runner.py:\d+\)", failure.message
    )
    assert list(live.written()) == ['b{task_id="a"}']
    result = replay([rules.file(group)], data.dataset(), options=options)
    assert [own.message for own in result.failures] == [failure.message]


@pytest.mark.parametrize(
    ("options", "url"),
    [
        (GroupOptions(), ""),
        (GroupOptions(listen="127.0.0.1:9466"), "http://127.0.0.1:9466/api/v1/query?query=x+%3E+1"),
        (
            GroupOptions(external_url="https://node/sw/", listen="127.0.0.1:9466"),
            "https://node/sw/api/v1/query?query=x+%3E+1",
        ),
    ],
    ids=["no API", "where it listens", "the external URL"],
)
def test_an_alert_links_to_the_query_that_raised_it(
    rules: Rules, data: Data, run_live: RunLive, options: GroupOptions, url: str
) -> None:
    data.add(Labels.of(__name__="x"), 0, [2])
    group = rules.group(rules.alert("High", "x > 1"), interval=10)
    (alert,) = run_live([group], data, end=0, options=options).alerts
    assert alert.generator_url == url


def test_a_string_is_no_rule_result(rules: Rules, data: Data, run_live: RunLive) -> None:
    live = run_live([rules.group(rules.record("text", '"hello"'), interval=10)], data, end=0)
    assert [failure.message for failure in live.evaluations[0].failures] == [
        "rule result is not a vector or scalar"
    ]


def test_evaluation_times_are_multiples_of_the_groups_interval(rules: Rules) -> None:
    runner = GroupRunner(rules.group(name="any", file="any.yaml", interval=30), GroupOptions())
    due = [second for second in range(1_700_000_000, 1_700_000_100) if runner.is_due(second * 1000)]
    assert due == [1_700_000_010, 1_700_000_040, 1_700_000_070]


def test_on_reload_state_follows_rule_name_and_labels(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    old = rules.group(
        rules.alert("High", "wait > 1", for_=20, labels={"tier": "1"}),
        rules.alert("High", "wait > 1", for_=20, labels={"tier": "2"}),
        interval=10,
    )
    live = run_live([old], data.add(WAIT, 0, [2, 2, 2]), end=10)
    new = rules.group(
        rules.alert("High", "wait > 0", for_=20, labels={"tier": "2"}),
        rules.alert("High", "wait > 0", for_=20, labels={"tier": "3"}),
        interval=10,
    )
    runner = GroupRunner(new, GroupOptions(), live.runners[0].state)
    for flush in list(data.flushes())[2:]:
        live.store.append(flush)
    done = runner.evaluate(20_000, live.store, live.store)
    (fired,) = done.transitions
    assert (fired.labels.get("tier"), fired.active_at_ms) == ("2", 0)


def test_what_a_removed_rule_leaves_goes_stale_and_its_alert_resolves(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    kept = rules.record("twice", "wait * 2")
    gone = (rules.record("thrice", "wait * 3"), rules.alert("High", "wait > 1"))
    live = run_live([rules.group(kept, *gone, interval=10)], data.add(WAIT, 0, [2, 2]), end=0)
    runner = GroupRunner(rules.group(kept, interval=10), GroupOptions(), live.runners[0].state)
    live.evaluations.append(runner.evaluate(10_000, live.store, live.store))
    assert live.written() == {
        'twice{task_id="a"}': [(0, 4.0), (10, 4.0)],
        'thrice{task_id="a"}': [(0, 6.0), (10, "stale")],
        'ALERTS{alertname="High", alertstate="firing", task_id="a"}': [(0, 1.0), (10, "stale")],
        'ALERTS_FOR_STATE{alertname="High", task_id="a"}': [(0, 0.0), (10, "stale")],
    }
    (resolved,) = live.evaluations[1].transitions
    assert (resolved.state, resolved.resolved_at_ms) == (AlertState.RESOLVED, 10_000)
    assert runner.evaluate(20_000, live.store, live.store).transitions == ()


def test_a_group_that_no_file_has_any_more_is_settled_at_once(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(rules.alert("High", "wait > 1"), interval=10)
    live = run_live([group], data.add(WAIT, 0, [2]), end=0)
    done = retire(live.runners[0].state, 7_000, live.store)
    assert [(own.state, own.resolved_at_ms) for own in done.transitions] == [
        (AlertState.RESOLVED, 7_000)
    ]
    assert [sample.labels.name for sample in done.samples] == ["ALERTS", "ALERTS_FOR_STATE"]


def test_after_a_restart_the_clocks_run_on_however_short_the_for(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    group = rules.group(rules.alert("High", "wait > 1", for_=30), interval=10)
    live = run_live([group], data.add(WAIT, 0, [2] * 10), end=10)
    state = after_downtime(live.runners[0].state, now_ms=85_000)
    runner = GroupRunner(group, GroupOptions(), state)
    for flush in list(data.flushes())[2:]:
        live.store.append(flush)
    (fired,) = runner.evaluate(90_000, live.store, live.store).transitions
    assert (fired.active_at_ms, fired.fired_at_ms) == (0, 90_000)


@pytest.mark.parametrize(
    ("down_ms", "active_at_ms"), [(3_600_000, 0), (3_600_001, 3_610_000)], ids=["an hour", "more"]
)
def test_after_more_than_an_hour_down_state_begins_anew_and_a_resolution_is_owed(
    rules: Rules, data: Data, run_live: RunLive, down_ms: int, active_at_ms: int
) -> None:
    group = rules.group(rules.alert("High", "wait > 1"), interval=10)
    live = run_live([group], data.add(WAIT, 0, [2]).add(WAIT, 3_610, [3]), end=0)
    state = after_downtime(live.runners[0].state, now_ms=down_ms)
    runner = GroupRunner(group, GroupOptions(), state)
    live.store.append(list(data.flushes())[1])
    moved = runner.evaluate(3_610_000, live.store, live.store).transitions
    fresh = down_ms > 3_600_000
    assert [own.state.value for own in moved] == (["resolved", "firing"] if fresh else [])
    (alert,) = runner.statuses[0].alerts
    assert alert.active_at_ms == active_at_ms
