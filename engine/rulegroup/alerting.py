"""An alerting rule over evaluation times: the alert state machine along an axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.alerts.alert import AlertState
from engine.alerts.machine import Element, Step, is_active, step
from engine.rulegroup.output import RuleFailure, RuleOutput, SampleColumns
from engine.rulegroup.state import RuleState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.alerts.alert import Alert, EvidenceEntry
    from engine.alerts.machine import AlertContext
    from engine.labels import Labels
    from engine.promql.value import Vector
    from engine.rulegroup.rows import Part
    from engine.series import BoolArray
    from rules.templates import QueryFunction

    # From all pending and firing alerts to the evidence of the firing ones.
    Collect: TypeAlias = Callable[[Iterable[Alert]], dict[Labels, tuple[EvidenceEntry, ...]]]


def watch(
    context: AlertContext,
    offset_ms: int,
    state: RuleState,
    parts: Iterable[Part],
    collect: Collect | None = None,
    ask: Callable[[int], QueryFunction] | None = None,
) -> tuple[RuleState, RuleOutput]:
    """Step the machine through every time.

    With `collect`, firing alerts get their evidence; `ask` gives what templates query at a time.
    """
    output = RuleOutput()
    alerts = state.alerts
    columns = SampleColumns(state.series)
    for part in parts:
        output.evaluations += len(part.times_ms)
        output.warnings.update(dict.fromkeys(part.warnings))
        if part.rows is None:
            time_ms = int(part.times_ms[0])
            output.failures.append(RuleFailure(context.rule.name, time_ms, part.error, part.place))
            continue
        last = len(part.times_ms) - 1
        for index, elements in _by_time(part.rows):
            idle = not (elements or columns.present or any(map(is_active, alerts.values())))
            # Nothing there and nothing active: only the last time, which forgets old resolutions.
            if idle and index != last:
                continue
            time_ms = int(part.times_ms[index])
            if ask is not None and context.templates.has_query:
                context.templates.query = ask(time_ms)
            done = step(context, alerts, time_ms, elements)
            if collect is not None:
                done = _with_evidence(done, collect)
            if done.error:
                output.cleared += [
                    alert
                    for labels, alert in alerts.items()
                    if alert.state is AlertState.FIRING and labels not in done.alerts
                ]
            alerts = done.alerts
            if done.error:
                output.failures.append(RuleFailure(context.rule.name, time_ms, done.error))
                continue
            output.transitions.extend(done.transitions)
            columns.write(time_ms - offset_ms, done.samples)
    output.series = columns.series()
    return RuleState(alerts, columns.present), output


def _by_time(rows: Vector) -> Iterator[tuple[int, list[Element]]]:
    """Each time's position and the elements present at it."""
    occupied: BoolArray = np.logical_or.reduce(rows.present, axis=0, initial=False)
    for index, any_there in enumerate(occupied.tolist()):
        there = np.flatnonzero(rows.present[:, index]).tolist() if any_there else []
        yield index, [Element(rows.labels[row], float(rows.values[row, index])) for row in there]


def _with_evidence(done: Step, collect: Collect) -> Step:
    found = collect(filter(is_active, done.alerts.values()))
    alerts: dict[Labels, Alert] = {
        labels: replace(alert, evidence=found[labels]) if labels in found else alert
        for labels, alert in done.alerts.items()
    }
    transitions = tuple(alerts.get(alert.labels, alert) for alert in done.transitions)
    return replace(done, alerts=alerts, transitions=transitions)
