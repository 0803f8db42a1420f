"""What the agent did live, and the dry-run of its own recording, tell the same story."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.alerts.alert import AlertState
from engine.dataset import open_data
from engine.flush import TaskEvent
from engine.labels import Labels
from engine.pipeline import resume
from engine.pipeline.replay import replay
from engine.recording import Recorder, open_recording
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import GroupRunner
from engine.rulegroup.state import after_downtime
from engine.state import StateDb
from engine.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from engine.alerts.alert import Alert
    from rules.model import Group
    from tests.engine.conftest import Data, Rules

START = 1_700_000_000
RETRANSMITS = Labels.of(__name__="tcp_retrans_total", task_id="a", rank="0")
RATIO = Labels.of(__name__="comm_wait_ratio", task_id="a", rank="0")


def made_group(rules: Rules) -> Group:
    return rules.group(
        rules.record("task:retransmits:rate1m", "sum by (task_id) (rate(tcp_retrans_total[1m]))"),
        rules.alert(
            "Retransmits",
            "task:retransmits:rate1m > 0.5",
            for_=60,
            keep_firing_for=20,
            labels={"tier": "1"},
            annotations={"summary": "{{ $labels.task_id }}: {{ $value | humanize }}/s"},
        ),
        rules.alert(
            "Stalled", "comm_wait_ratio > 0.3 and on (task_id) ALERTS", labels={"tier": "2"}
        ),
        rules.record("firing", "count(ALERTS) or vector(0)"),
    )


def fill(data: Data) -> None:
    """Two bursts; what a rule last said before the kill differs from what it says after."""
    growth = [0] * 20 + [20] * 40 + [0] * 30 + [20] * 60 + [0] * 30
    data.add(RETRANSMITS, START, list(np.cumsum(growth).astype(float)))
    data.add(RATIO, START, [0.1] * 40 + [0.6] * 100 + [0.1] * 40)
    for number in range(300):
        second = START + 200 + number * 5.5
        fields = (("comm", "python"), ("src", "10.0.0.1"), ("sport", number % 3), ("dport", 29500))
        flush_ms = int(-(-second // 10) * 10) * 1000
        data.events.append(
            TaskEvent(int(second * 1000), flush_ms, "tcp_retransmit", "n", "a", "0", 7, fields)
        )


def live(group: Group, data: Data, folder: Path, kills: dict[int, int]) -> list[Alert]:
    """Run the stages as the agent does; `kills`: from a second of death to one of restart."""
    over: list[Alert] = []
    runner, recorder, database, store = _start(group, folder, START * 1000)
    restart = 0
    for flush in data.flushes():
        second = flush.timestamp_ms // 1000 - START
        if second < restart:
            continue
        if second == restart and restart:
            runner, recorder, database, store = _start(group, folder, flush.timestamp_ms - 4000)
        store.append(flush)
        recorder.write(flush)
        done = runner.evaluate(flush.timestamp_ms, store, store)
        database.commit([runner.state], done.transitions)
        over += [own for own in done.transitions if own.state is AlertState.RESOLVED]
        values = np.array([sample.value for sample in done.samples])
        labels = [sample.labels for sample in done.samples]
        recorder.write_samples(flush.timestamp_ms, labels, values)
        recorder.log_evaluated(group.file, group.name, flush.timestamp_ms)
        if second in kills:
            restart = kills[second]
            recorder.close()
            database.close()
    recorder.close()
    firing = [own for status in runner.statuses for own in status.alerts]
    over += [own for own in firing if own.state is AlertState.FIRING]
    return sorted(over, key=lambda own: (own.fired_at_ms or 0, own.labels))


def _start(group: Group, folder: Path, now_ms: int) -> tuple[GroupRunner, Recorder, StateDb, Store]:
    database = StateDb.open(folder / "state.db")
    recorder = Recorder(str(folder / "recording"))
    store = Store()
    if database.load():
        resume.refill(store, open_recording(str(folder / "recording")), now_ms)
    state = database.load().get((group.file, group.name))
    if state is not None:
        last_ms = state.last_evaluation_ms or 0
        for time_ms in range(last_ms + 10_000, now_ms + 1, 10_000):
            run = (time_ms, time_ms, 0)
            recorder.log_skipped(group.file, group.name, run, time_ms, "down")
        state = after_downtime(state, now_ms)
    recorder.log_restart(now_ms)
    recorder.log_interval(group.file, group.name, 10_000)
    return GroupRunner(group, GroupOptions(), state), recorder, database, store


@pytest.mark.parametrize(
    "kills",
    [{}, {280: 310, 500: 520, 1100: 1300}],
    ids=["no kill", "killed pending, firing and resolved"],
)
def test_the_dry_run_of_a_recording_equals_what_happened(
    rules: Rules, data: Data, tmp_path: Path, kills: dict[int, int]
) -> None:
    fill(data)
    group = made_group(rules)
    happened = live(group, data, tmp_path, kills)
    result = replay([rules.file(group)], open_data(str(tmp_path / "recording")))
    assert list(result.alerts) == happened
    assert {own.labels.get("alertname") for own in happened} == {"Retransmits", "Stalled"}
    assert all(own.evidence for own in happened)
