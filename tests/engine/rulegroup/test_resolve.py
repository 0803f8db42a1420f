"""A rule with a resolve expression: one time after another, along an axis, and by a slow look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.alerts.alert import AlertState
from engine.labels import Labels
from engine.pipeline.replay import replay
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import GroupRunner
from engine.store import Store
from tests.engine.conftest import Data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from rules.model import Group
    from tests.engine.conftest import Rules

TASKS = [Labels.of(__name__="wait", task_id=task) for task in ("a", "b")]
TIMES = [float(second) for second in range(0, 10_000, 10)]
Spell = tuple[str, float, float | None]


def spells(alerts: Sequence[Alert]) -> list[Spell]:
    """Task, when it fired and when it resolved, in seconds."""
    return sorted(
        (
            own.labels.get("task_id"),
            (own.fired_at_ms or 0) / 1000,
            None if own.resolved_at_ms is None else own.resolved_at_ms / 1000,
        )
        for own in alerts
    )


def expected(values: Sequence[float | None], keep: float, failing: set[int]) -> list[Spell]:
    """Of one task whose rule is `wait > 2`, resolved by `wait > 1`, looked at one by one."""
    found: list[Spell] = []
    fired: float | None = None
    since: float | None = None
    for index, value in enumerate(values):
        now = TIMES[index]
        if index in failing:
            continue
        if value is not None and value > (2 if fired is None else 1):
            fired, since = now if fired is None else fired, None
        elif fired is not None:
            since = now if since is None else since
            if now - since >= keep:
                found.append(("a", fired, now))
                fired = since = None
    return [*found, *([] if fired is None else [("a", fired, None)])]


levels = st.sampled_from([0.0, 1.5, 1.5, 1.5, 3.0, None])


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(levels, min_size=1, max_size=60),
    keep=st.sampled_from([0.0, 10.0, 30.0]),
    failing=st.sets(st.integers(0, 59), max_size=3),
)
def test_live_and_dry_run_are_what_a_slow_look_says(
    rules: Rules, values: list[float | None], keep: float, failing: set[int]
) -> None:
    failing = {index for index in failing if index < len(values)}
    twin = [Labels.of(__name__="twin", task_id="a", copy=copy) for copy in "xy"]
    data = Data().add(TASKS[0], 0, [value if value is not None else "stale" for value in values])
    data.add(TASKS[1], 0, [0.0] * len(values))  # there is always something to evaluate
    data.add(twin[0], 0, [5.0] * len(values))
    # Two twins match one wait: the resolve expression fails, there and only there.
    data.add(twin[1], 0, [5.0 if now in failing else "stale" for now in range(len(values))])
    resolve = "wait > 1 unless on (task_id) (wait * on (task_id) twin) < -9"
    group = rules.group(
        rules.alert("A", "wait > 2", keep_firing_for=keep, resolve=resolve), interval=10
    )
    wanted = expected(values, keep, failing)
    assert spells(replay([rules.file(group)], data.dataset()).alerts) == wanted
    assert spells(lived(group, data)) == wanted


def lived(group: Group, data: Data) -> list[Alert]:
    """All that fired, evaluated one time after another; each minute another runner takes over."""
    options = GroupOptions(interval_ms=10_000)
    store, runner = Store(), GroupRunner(group, options)
    ended: list[Alert] = []
    for flush in data.flushes():
        store.append(flush)
        if flush.timestamp_ms % 60_000 == 0:
            runner = GroupRunner(group, options, runner.state)
        done = runner.evaluate(flush.timestamp_ms, store)
        ended += [own for own in done.transitions if own.state is AlertState.RESOLVED]
    rest = [own for status in runner.statuses for own in status.alerts]
    return ended + [own for own in rest if own.state is AlertState.FIRING]
