from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.alerts.alert import AlertState
from engine.dataset import MemoryDataset
from engine.flush import TaskEvent
from engine.labels import Labels
from engine.pipeline import replay as replay_module
from engine.pipeline.replay import replay
from engine.recording.slots import Slots
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import GroupRunner
from engine.rulegroup.state import after_downtime
from engine.series import stale_mask
from engine.state import StateDb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from engine.series import Series
    from rules.model import Group, Rule
    from tests.engine.conftest import Data, Live, Rules, RunLive

WAIT = Labels.of(__name__="comm_wait_ratio", task_id="a", rank="0")
GROUPS = st.integers(1, 3)
# Expressions over the data, over what rules record (r0, r1, ...) and over ALERTS.
EXPRESSIONS = (
    "x > 2",
    "rate(x[40s])",
    "sum by (task_id) (x)",
    "{0} * 2",
    "x + on (task_id) group_left {0}",
    "{0} > 1",
    "avg_over_time({0}[30s]) > 1",
    "count(ALERTS)",
    'count(ALERTS{{alertstate="firing"}}) > 0',
    'ALERTS_FOR_STATE{{alertname="{1}"}}',
    'count({{task_id="a"}})',
    "sum(last_over_time({0}[30s])) + 1 or vector(0)",
    "x and on () {0}",
    "x * on (task_id) x",
    "max_over_time((x > 2)[30s:10s])",
)


@st.composite
def rule_groups(draw: st.DrawFn, rules: Rules) -> list[Group]:
    count = draw(st.integers(2, 5))
    alerting = [draw(st.booleans()) for _ in range(count)]
    names = [f"{'A' if alerts else 'r'}{index}" for index, alerts in enumerate(alerting)]
    made: list[Rule] = []
    for name, alerts in zip(names, alerting, strict=True):
        text = draw(st.sampled_from(EXPRESSIONS))
        expr = text.format(draw(st.sampled_from([f"r{i}" for i in range(count)])), name)
        if alerts:
            held = draw(st.sampled_from([0, 10, 30]))
            kept = draw(st.sampled_from([0, 20]))
            made.append(rules.alert(name, expr, for_=held, keep_firing_for=kept))
        else:
            made.append(rules.record(name, expr))
    cut = draw(st.integers(0, count))
    offsets = st.sampled_from([None, None, 10])
    return [
        rules.group(
            *part,
            name=f"g{index}",
            interval=draw(st.sampled_from([10, 20])),
            query_offset=draw(offsets),
            limit=draw(st.sampled_from([0, 0, 2])),
        )
        for index, part in enumerate((made[:cut], made[cut:]))
    ]


def columns(series: Sequence[Series]) -> dict[str, list[tuple[int, float | str]]]:
    return {
        str(own.labels): [
            (time // 1000, "stale" if stale else value)
            for time, value, stale in zip(
                own.timestamps_ms.tolist(),
                own.values.tolist(),
                stale_mask(own.values).tolist(),
                strict=True,
            )
        ]
        for own in series
    }


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(draw=st.data())
def test_an_axis_at_once_and_one_time_after_another_give_the_same(
    draw: st.DataObject,
    rules: Rules,
    make_data: Callable[[], Data],
    run_live: RunLive,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = draw.draw(rule_groups(rules))
    data = make_data()
    values = st.lists(st.sampled_from([1, 2, 3, 4, None, "stale"]), min_size=20, max_size=20)
    for task_id in ("a", "b"):
        data.add(Labels.of(__name__="x", task_id=task_id), 0, draw.draw(values))
    live = run_live(groups, data, end=190)
    shared = run_live(groups, data, end=190, share=True)
    assert shared.written() == live.written()
    assert list(map(repr, shared.evaluations)) == list(map(repr, live.evaluations))
    monkeypatch.setattr(replay_module, "read_by_others", lambda rules: [True] * len(rules))
    monkeypatch.setattr(replay_module, "CHUNK_MS", draw.draw(st.sampled_from([30_000, 10**9])))
    run = replay_module._Run(
        [rules.file(*groups)], data.dataset(), 0, 190_000, GroupOptions(), fill=False
    )
    edges = run.edges()
    for from_ms, to_ms in pairwise(edges):
        assert list(run.chunk(from_ms, to_ms))[-1:] == [1.0]
    own = [column.between(labels, -(10**9), 10**9) for labels, column in run._overlay._own.items()]
    assert columns([series for series in own if series]) == live.written()
    result = run.result()
    assert {repr(alert) for alert in result.alerts} >= {repr(alert) for alert in live.alerts}
    failed = sorted((own.rule, own.message) for done in live.evaluations for own in done.failures)
    assert sum(own.count for own in result.failures) == len(failed)
    assert {(own.rule, own.message) for own in result.failures} == set(failed)


@dataclass(frozen=True, slots=True, eq=False)
class Logged(MemoryDataset):
    """A dataset with a log of evaluations, as a recording has it; times in seconds."""

    evaluated: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    skipped: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    restarts: tuple[int, ...] = ()

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.evaluated)

    @property
    def intervals(self) -> dict[tuple[str, str], int]:
        return dict.fromkeys(self.evaluated, 10_000)

    def slots(self, file: str, group: str) -> Slots:
        key = (file, group)
        return Slots(
            np.array(self.evaluated.get(key, []), dtype=np.int64) * 1000,
            np.array(self.skipped.get(key, []), dtype=np.int64) * 1000,
        )


def logged_data(
    data: Data,
    evaluated: dict[tuple[str, str], list[int]],
    skipped: dict[tuple[str, str], list[int]] | None = None,
    restarts: tuple[int, ...] = (),
) -> Logged:
    return Logged(
        data.dataset().series, evaluated=evaluated, skipped=skipped or {}, restarts=restarts
    )


def live_with_outage(
    group: Group, data: Data, down: tuple[int, int], path: Path, end: int
) -> tuple[list[object], Logged]:
    """The agent killed after second `down[0]` and started again at second `down[1]`."""
    live = _killed(group, data, down, path, end)
    slots = list(range(0, end + 1, 10))
    missed = [second for second in slots if down[0] < second <= down[1]]
    logged = logged_data(
        data,
        {("rules.yaml", "group"): [second for second in slots if second not in missed]},
        {("rules.yaml", "group"): missed},
        (0, down[1] * 1000),
    )
    return live, logged


def _killed(group: Group, data: Data, down: tuple[int, int], path: Path, end: int) -> list[object]:
    from engine.store import Store

    store = Store()
    options = GroupOptions()
    flushes = {flush.timestamp_ms: flush for flush in data.flushes()}
    runner = GroupRunner(group, options)
    database = StateDb.open(path)
    over: list[object] = []
    for second in range(0, end + 1, 10):
        if second * 1000 in flushes:
            store.append(flushes[second * 1000])
        if down[0] < second <= down[1]:
            if second == down[1]:
                database.close()
                database = StateDb.open(path)
                state = database.load()["rules.yaml", "group"]
                runner = GroupRunner(group, options, after_downtime(state, second * 1000))
            continue
        done = runner.evaluate(second * 1000, store, store)
        database.commit([runner.state], done.transitions)
        over += [own for own in done.transitions if own.state is AlertState.RESOLVED]
    firing = [
        own for status in runner.statuses for own in status.alerts if own.state is AlertState.FIRING
    ]
    return over + firing


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        # Killed while pending: the clock of a minute runs on.
        ((40, 50), [(30, 90, None)]),
        ((40, 100), [(30, 110, None)]),
        # Killed while firing, back within the hour, it goes on.
        ((200, 300), [(30, 90, None)]),
        ((200, 3800), [(30, 90, None)]),
        # A second more than an hour: resolved on the first evaluation, and anew from there.
        ((200, 3810), [(30, 90, 3820), (3820, 3880, None)]),
    ],
    ids=["pending", "due while down", "firing", "an hour", "more than an hour"],
)
def test_a_replay_skips_what_was_skipped_and_begins_anew_where_the_agent_did(
    rules: Rules,
    data: Data,
    tmp_path: Path,
    down: tuple[int, int],
    expected: list[tuple[int, int, int | None]],
) -> None:
    group = rules.group(rules.alert("Waiting", "comm_wait_ratio > 0.3", for_=60), interval=10)
    data.add(WAIT, 0, [0.1] * 3 + [0.5] * 420)
    live, logged = live_with_outage(group, data, down, tmp_path / "state.db", end=4200)
    result = replay([rules.file(group)], logged)
    assert [
        (
            own.active_at_ms // 1000,
            (own.fired_at_ms or 0) // 1000,
            own.resolved_at_ms and own.resolved_at_ms // 1000,
        )
        for own in result.alerts
    ] == expected
    assert list(result.alerts) == live
    filled = replay([rules.file(group)], logged, fill=True)
    assert [own.fired_at_ms for own in filled.alerts] == [90_000]
    assert filled.evaluations > result.evaluations


def test_a_rule_file_under_another_path_is_still_the_recorded_one(rules: Rules, data: Data) -> None:
    data.add(WAIT, 0, [0.5] * 10)
    logged = logged_data(data, {("/etc/rules/comm.yaml", "group"): [0, 10, 20]})
    rule = rules.alert("Waiting", "comm_wait_ratio > 0.3")
    for file, evaluations in (("mine/comm.yaml", 3), ("other.yaml", 3)):
        group = rules.group(rule, file=file)
        assert replay([rules.file(group)], logged).evaluations == evaluations


def test_a_group_that_was_not_live_misses_only_when_the_agent_was_down(
    rules: Rules, data: Data
) -> None:
    data.add(WAIT, 0, [0.5] * 10)
    one, two = ("rules.yaml", "one"), ("rules.yaml", "two")
    logged = logged_data(
        data,
        {one: [0, 10, 20, 60, 70, 80, 90], two: [0, 10, 60, 70, 80, 90]},
        {one: [30, 40, 50], two: [20, 30, 40, 50]},
    )
    group = rules.group(rules.alert("New", "comm_wait_ratio > 0.3"), name="new", interval=10)
    assert replay([rules.file(group)], logged).evaluations == 7


def test_an_alert_over_its_limit_is_listed_as_it_stood_when_it_was_cleared(
    rules: Rules, data: Data
) -> None:
    data.add(WAIT, 0, [0.5] * 6).add(WAIT.merged({"rank": "1"}), 20, [0.5, "stale"])
    group = rules.group(rules.alert("Waiting", "comm_wait_ratio > 0.3"), interval=10, limit=1)
    result = replay([rules.file(group)], data.dataset())
    assert [(own.active_at_ms, own.resolved_at_ms) for own in result.alerts] == [
        (0, None),
        (30_000, None),
    ]
    (failure,) = result.failures
    assert (failure.message, failure.count, failure.first_ms) == (
        "exceeded limit of 1 with 2 alerts",
        1,
        20_000,
    )


def retransmit(second: float, flush: int, rank: str, pid: int, dport: int) -> TaskEvent:
    fields = (
        ("comm", "python"),
        ("src", "10.0.0.1"),
        ("sport", 40000 + int(rank)),
        ("dst", "10.0.0.2"),
        ("dport", dport),
    )
    return TaskEvent(
        int(second * 1000), flush * 1000, "tcp_retransmit", "n0", "a", rank, pid, fields
    )


def test_live_and_replay_have_the_same_evidence(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    data.add(WAIT, 0, [0.1, 0.5, 0.6, 0.7, 0.1, 0.1])
    data.add(WAIT.merged({"rank": "1"}), 0, [0.05] * 6)
    for number in range(12):
        second = 3.5 + number * 4
        flush = int(second // 10 * 10 + 10)
        data.events.append(retransmit(second, flush, str(number % 2), 100 + number % 2, 29500))
    group = rules.group(
        rules.alert("Waiting", 'comm_wait_ratio{rank="0"} > 0.3', labels={"tier": "2"}),
        rules.alert("Still", "comm_wait_ratio > 0"),
        interval=10,
    )
    live: Live = run_live([group], data, end=50)
    result = replay([rules.file(group)], data.dataset(), 0, 50_000)
    assert list(result.alerts) == live.alerts
    waiting = next(own for own in result.alerts if own.labels.get("alertname") == "Waiting")
    # The last evaluation that held was at 30: events flushed later are not seen.
    assert waiting.evidence == (
        {
            "rank": "0", "pid": 100, "comm": "python", "src": "10.0.0.1", "sport": 40000,
            "dst": "10.0.0.2", "dport": 29500, "retransmits": 4, "first": 3.5, "last": 27.5,
        },
        {
            "rank": "1", "pid": 101, "comm": "python", "src": "10.0.0.1", "sport": 40001,
            "dst": "10.0.0.2", "dport": 29500, "retransmits": 3, "first": 7.5, "last": 23.5,
        },
        {"rank": "0", "comm_wait_ratio": 0.6},
        {"rank": "1", "comm_wait_ratio": 0.05},
    )  # fmt: skip


def test_templates_query_at_the_time_of_their_evaluation(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    data.add(WAIT, 0, [0.5, 0.6, 0.7, 0.1])
    text = '{{ with query "comm_wait_ratio + 1" }}{{ . | first | value }}{{ end }}'
    wrong = '{{ query "sum(" }}'
    rule = rules.alert("A", "comm_wait_ratio > 0.3", annotations={"text": text, "wrong": wrong})
    group = rules.group(rule, interval=10)
    live = run_live([group], data, end=30)
    result = replay([rules.file(group)], data.dataset(), 0, 30_000)
    assert list(result.alerts) == live.alerts
    (alert,) = result.alerts
    assert alert.annotations["text"] == "1.7"
    assert alert.annotations["wrong"].startswith("<error expanding template: ")
    assert "query 'sum('" in alert.annotations["wrong"]


def test_two_rules_that_write_one_series_in_turns_do_so_in_a_dry_run_too(
    rules: Rules, data: Data, run_live: RunLive
) -> None:
    data.add(WAIT, 0, [0.5, 0.1, 0.5, 0.1, 0.5, 0.1])
    group = rules.group(
        rules.record("state", "max by (task_id) (comm_wait_ratio > 0.3)"),
        rules.record("state", "max by (task_id) (comm_wait_ratio <= 0.3)"),
        rules.alert("Any", "count_over_time(state[1m]) > 4"),
        rules.alert("Now", "state == 0.1"),
        interval=10,
    )
    live = run_live([group], data, end=50)
    result = replay([rules.file(group)], data.dataset(), 0, 50_000)
    assert list(result.alerts) == live.alerts
