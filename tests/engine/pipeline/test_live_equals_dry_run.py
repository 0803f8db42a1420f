"""The heart of it: what rules saw live, they see in a dry-run of the recording.

An agent is driven by hand, with a clock of the test's own: flushes, late evaluations, stops, kills
between any two writes, outages, reloads. Then its recording is dry-run.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from dataclasses import dataclass, field
from dataclasses import replace as replace_step
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.alerts.alert import AlertState, Suppression
from engine.alerts.encoding import alert_from_json, alert_to_json
from engine.config.model import Config
from engine.dataset import open_data
from engine.flush import Flush, TaskEvent
from engine.labels import Labels
from engine.pipeline.agent import Agent
from engine.pipeline.replay import replay
from engine.recording import Recorder
from engine.series import STALE_NAN
from rules.loader import load_paths

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from engine.state.file import StateFile

# A few days ago: the agent's own log has the true time, from which retention counts. 420 seconds
# hold every interval, so that each run has the same slots.
START = (int(time.time()) - 3 * 86_400) // 420 * 420 + 20
LOAD = [Labels.of(__name__="load", task_id="t", rank=str(rank)) for rank in range(2)]
COUNT = Labels.of(__name__="errors_total", task_id="t", rank="0")
CHANGING = """
  - name: changing
    rules:
      - record: only:here
        expr: load * {factor}
"""
EXPRESSIONS = [
    "load > 2",
    "sum by (task_id) (load) > 4",
    "avg_over_time(load[35s]) > 2",
    "rate(errors_total[1m]) > 0.05",
    "later > 3",
    "twice > 5",
    "own > 4",
    'load > 1 and on (task_id) ALERTS{alertstate="firing"}',
    "max_over_time(load[1m:7s]) > 3",
    "load offset -10s > 2",
    "load @ end() > 2 or errors_total > 5",
    "time() - timestamp(load) > 4",
    "absent(load)",
    "ALERTS_FOR_STATE > 0",
    "changes(twice[1m]) > 1",
    "fallback > 2",
    "steps > 1",
]
RESOLVE = [
    "load > 1",
    "sum by (task_id) (load) > 1",
    "later",
    "max_over_time(twice[40s]) > 2",
    'ALERTS{alertname="A2",alertstate="firing"}',
    "load offset -10s > 1",
    "rate(errors_total[1m])",
    "load / ignoring(rank) errors_total",  # fails while both ranks are there
]
RECORDS = {
    "twice": ["load * 2"],
    "own": ["own + 1 or load", "count_over_time(own[1m]) or load"],
    "later": ["max by (task_id) (load)"],
    "steps": ["count(ALERTS) or vector(0)"],
}


class KilledError(BaseException):
    """Ends the process at this point, as far as the test is concerned."""


class Outbox:
    """Keeps what it is handed in the agent's own transactions."""

    def __call__(self, config: Config, state: StateFile) -> Outbox:
        return self

    def enqueue(self, connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS told (alert TEXT)")
        for alert in alerts:
            connection.execute("INSERT INTO told VALUES (?)", (json.dumps(alert_to_json(alert)),))

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def stop(self, timeout_seconds: float) -> None: ...

    def samples(self) -> list[Any]:
        return []

    def suppression(self, alert: Alert) -> Suppression:
        return Suppression()

    def mounted(self, alerts: Any) -> dict[str, Any]:
        return {}


@dataclass
class Bench:
    """An agent, its clock and its disk."""

    folder: Path
    rules: str
    now: float = START + 0.5
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        self.write_rules(1)
        self.start()

    def write_rules(self, factor: int) -> None:
        text = self.rules + CHANGING.format(factor=factor)
        (self.folder / "rules.yaml").write_text(text)

    def start(self) -> None:
        config = Config(state_dir=self.folder / "state", node="n")
        files = load_paths([self.folder / "rules.yaml"])
        self.agent = Agent(config, files, [], Outbox(), clock=lambda: self.now)
        # Its lines would open hours that the clock of the test has not reached.
        logging.getLogger().removeHandler(self.agent._log)

    def flush(self, flush: Flush) -> None:
        for sink in self.agent.flusher.sinks:
            sink(flush)

    def turn(self) -> None:
        self.agent.evaluator.turn()

    def reload(self, factor: int) -> None:
        self.write_rules(factor)
        self.agent.reload(load_paths([self.folder / "rules.yaml"]))

    def kill_in(self, point: str, after: int) -> None:
        """Die in this turn before a commit, or before an evaluation's samples or log are written.

        `after`: so many groups do it first.
        """
        left = [None] * after

        def die(*args: object, **named: object) -> object:
            if not left:
                raise KilledError
            left.pop()
            return before(*args, **named)

        owner: Any = self.agent.state if point == "commit" else self.agent.recorder
        before = getattr(owner, point)
        setattr(owner, point, die)
        try:
            self.turn()
        except KilledError:
            pass
        finally:
            setattr(owner, point, before)
        self.die()

    def die(self) -> None:
        """What the kernel does for a killed process: descriptors and locks go, nothing is said."""
        recorder = self.agent.recorder
        assert isinstance(recorder, Recorder)
        if recorder._sealer is not None:
            # Its threads go too; here one would go on beside the next agent, in the same folder.
            recorder._sealer.join()
        if recorder._journal is not None:
            os.close(recorder._journal._descriptor)
        recorder._lock.release()
        self.agent.state.close()
        self.agent._lock.release()

    def outcome(self) -> list[Alert]:
        """Every alert that fired, as it ended or as it stands."""
        with self.agent.state.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS told (alert TEXT)")
            rows = connection.execute("SELECT alert FROM told").fetchall()
        told = [alert_from_json(json.loads(text)) for (text,) in rows]
        standing = [
            alert
            for runner in self.agent.evaluator.runners
            for status in runner.statuses
            for alert in status.alerts
        ]
        ended = [alert for alert in told if alert.state is AlertState.RESOLVED]
        firing = [alert for alert in standing if alert.state is AlertState.FIRING]
        return [*ended, *firing]


@dataclass(frozen=True)
class Step:
    """What happens between two flushes."""

    loads: tuple[float | None, float | None]
    errors: int
    event: bool
    turns: tuple[bool, bool, bool]
    then: str = ""
    down: int = 0
    after: int = 0
    is_flushed: bool = True


QUIET = Step((0.0, 0.0), 0, event=False, turns=(True, True, True))
POINTS = ("commit", "write_samples", "log_evaluated")
values = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.5, 3.0, 4.0, STALE_NAN]))
steps = st.builds(
    Step,
    loads=st.tuples(values, values),
    errors=st.integers(0, 2),
    event=st.booleans(),
    turns=st.tuples(*[st.sampled_from([True, True, True, False])] * 3),
    then=st.sampled_from([""] * 12 + ["stop", "die", *POINTS, "reload"]),
    after=st.integers(0, 2),
    down=st.sampled_from([0, 0, 4, 25, 130, 3590, 3700]),
    is_flushed=st.sampled_from([True] * 9 + [False]),
)


@st.composite
def rule_files(draw: st.DrawFn) -> str:
    """A rule file in YAML: recording rules among alerting rules, in groups of mixed intervals."""
    recorded = list(RECORDS)
    lines = ["groups:"]
    number = 0
    for group in range(draw(st.integers(1, 3))):
        lines.append(f"  - name: g{group}")
        interval = draw(st.sampled_from(["", "7s", "10s", "15s", "20s"]))
        if interval:
            lines.append(f"    interval: {interval}")
        offset = draw(st.sampled_from(["", "", "5s", "10s"]))
        if offset:
            lines.append(f"    query_offset: {offset}")
        lines.append("    rules:")
        for _ in range(draw(st.integers(1, 4))):
            is_record: bool = draw(st.booleans())
            if recorded and is_record:
                name = recorded.pop(draw(st.integers(0, len(recorded) - 1)))
                expression = draw(st.sampled_from(RECORDS[name]))
                lines += [f"      - record: {name}", f"        expr: {expression!r}"]
                continue
            number += 1
            expression = json.dumps(draw(st.sampled_from(EXPRESSIONS)))
            lines += [
                f"      - alert: A{number}",
                f"        expr: {expression}",
                f"        for: {draw(st.sampled_from([0, 5, 10, 30, 60]))}s",
                f"        keep_firing_for: {draw(st.sampled_from([0, 0, 10, 25]))}s",
                "        labels:",
                "          task_id: t",
                "          kind: '{{ if gt $value 3.0 }}high{{ else }}low{{ end }}'",
                "        annotations:",
                "          say: '{{ $labels.rank }} is {{ $value }}'",
            ]
            resolve = draw(st.sampled_from(["", "", *RESOLVE]))
            if resolve:
                lines.append(f"          stallwatch_resolve_expr: {json.dumps(resolve)}")
    return "\n".join(lines)


def play(bench: Bench, course: Sequence[Step]) -> None:
    """Drive the agent through everything that happens."""
    errors = 0.0
    second = START
    for number, now in enumerate(course):
        second += 10
        errors += now.errors
        bench.now = second + 0.2
        if now.is_flushed:
            pairs = [(own, value) for own, value in zip(LOAD, now.loads, strict=True)]
            found = [(own, value) for own, value in [*pairs, (COUNT, errors)] if value is not None]
            bench.flush(
                Flush(
                    second * 1000,
                    tuple(own for own, _ in found),
                    np.array([value for _, value in found], dtype=np.float64),
                    tuple(retransmit(second, number) for _ in range(now.event)),
                )
            )
        is_dead = False
        for wanted, after in zip(now.turns, (0.3, 4.1, 8.3), strict=True):
            bench.now = second + after
            if wanted and now.then in POINTS:
                bench.kill_in(now.then, now.after)
                is_dead = True
                break
            if wanted:
                bench.turn()
        bench.now = second + 9.0
        if now.then == "reload":
            bench.reload(factor=number + 2)
        elif now.then == "stop":
            bench.agent.stop()
        elif now.then and not is_dead:
            bench.die()
        if now.then not in {"", "reload"}:
            second += now.down // 10 * 10
            bench.now = second + 9.0 + now.down % 10 / 10
            bench.start()


def retransmit(second: int, number: int) -> TaskEvent:
    fields = (("comm", "python"), ("src", "10.0.0.1"), ("sport", number % 3), ("dport", 29500))
    return TaskEvent(
        second * 1000 - 4000, second * 1000, "tcp_retransmit", "n", "t", "0", 7, fields
    )


def told(alert: Alert) -> tuple[Any, ...]:
    """What must be equal; NaN is written, since it equals nothing."""
    return (
        alert.fired_at_ms or 0,
        alert.labels,
        alert.active_at_ms,
        alert.resolved_at_ms or 0,
        repr(alert.value),
        alert.evidence,
        alert.annotations,
    )


def check(rules: str, course: Sequence[Step]) -> list[Alert]:
    with tempfile.TemporaryDirectory(prefix="stallwatch-") as name:
        bench = Bench(Path(name), rules)
        # Some quiet at the end, in which every group is evaluated: resolutions that are owed come.
        play(bench, [*course, *[QUIET] * 3])
        happened = bench.outcome()
        bench.agent.stop()
        files = load_paths([bench.folder / "rules.yaml"])
        result = replay(files, open_data(str(bench.folder / "state" / "recording")))
    assert sorted(map(told, result.alerts)) == sorted(map(told, happened))
    return happened


FIXED = """
groups:
  - name: fast
    interval: 7s
    rules:
      - {record: fast, expr: fast + 1 or load * 0}
      - {alert: Fast, expr: fast > 1 and load > 1, for: 20s, keep_firing_for: 15s}
  - name: slow
    interval: 15s
    query_offset: 5s
    rules:
      - {record: slow, expr: slow + 1 or load * 0}
      - {alert: Slow, expr: slow > 1}
      - {record: twice, expr: load * 2}
      - {alert: Twice, expr: 'max_over_time(twice[40s]) > 5', for: 30s, labels: {task_id: t}}
      - alert: Held
        expr: fast > 1 and load > 2
        annotations: {stallwatch_resolve_expr: 'sum by (task_id) (max_over_time(load[45s])) > 3'}
      - {alert: Both, expr: 'load > 1 and on (task_id) ALERTS{alertname="Twice"}'}
"""


NAMES = {"Fast", "Slow", "Twice", "Both", "Held"}


@pytest.mark.parametrize(
    ("end", "down", "turn", "after"),
    [(end, down, 0, 0) for end in ("stop", "die") for down in (0, 25, 3700)]
    + [(end, 25, turn, after) for end in POINTS for turn in range(3) for after in range(2)],
)
def test_wherever_the_agent_ends_a_dry_run_agrees_with_what_happened(
    end: str, down: int, turn: int, after: int
) -> None:
    """`fast` and `slow` count the evaluations of their groups: none may be missed or added."""
    always = (True, True, True)
    low, high = (Step((load, load), 1, event=True, turns=always) for load in (0.5, 3.0))
    # Twice at the same place, the second time right after the start.
    killed = replace_step(high, then=end, down=down, after=after, turns=(turn < 1, turn < 2, True))
    course = [low, high, high, high, killed, killed, high, high, high, high, low, low, low, low]
    happened = check(FIXED, course)
    assert {own.labels.get("alertname") for own in happened} == NAMES


@pytest.mark.timeout(1200)  # a dozen agents' lives: five minutes on a busy machine
@settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(rules=rule_files(), course=st.lists(steps, min_size=15, max_size=40))
def test_what_rules_saw_live_they_see_in_a_dry_run(rules: str, course: list[Step]) -> None:
    check(rules, course)
