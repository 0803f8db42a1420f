"""An alerting rule over evaluation times: the alert state machine along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.alerts.alert import AlertState
from engine.alerts.hold import Hold
from engine.alerts.machine import Element, Step, is_active, step
from engine.rulegroup.alert_axis import Along
from engine.rulegroup.output import RuleFailure, RuleOutput, SampleColumns
from engine.rulegroup.state import RuleState
from rules.slotted import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.alerts.alert import Alert, EvidenceEntry
    from engine.alerts.machine import AlertContext, AlertTable
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
    """Take the rule's alerts through every time.

    With `collect`, firing alerts get their evidence; `ask` gives what templates query at a time.
    """
    output = RuleOutput()
    alerts = state.alerts
    columns = SampleColumns(state.series)
    stepwise = _Stepwise(context, offset_ms, collect, ask)
    for part in parts:
        output.evaluations += len(part.times_ms)
        output.warnings.update(dict.fromkeys(part.warnings))
        if part.rows is None:
            time_ms = int(part.times_ms[0])
            output.failures.append(RuleFailure(context.rule.name, time_ms, part.error, part.place))
            continue
        along = None
        # What is kept firing by another expression is looked at time by time.
        if collect is None and part.kept is None and len(part.times_ms) > 1:
            along = Along.of(context, part.rows, part.times_ms, alerts)
        if along is not None:
            alerts = along.follow(columns, offset_ms, output)
        else:
            alerts = stepwise.follow(part, part.rows, alerts, columns, output)
    output.series = columns.series()
    return RuleState(alerts, columns.present), output


class _Stepwise:
    """The machine at one time after another."""

    def __init__(
        self,
        context: AlertContext,
        offset_ms: int,
        collect: Collect | None,
        ask: Callable[[int], QueryFunction] | None,
    ) -> None:
        self._context, self._offset_ms = context, offset_ms
        self._collect, self._ask = collect, ask

    def follow(
        self,
        part: Part,
        rows: Vector,
        alerts: AlertTable,
        columns: SampleColumns,
        output: RuleOutput,
    ) -> AlertTable:
        """The alerts after the last time of a part, whose `rows` these are."""
        times_ms, last = part.times_ms, len(part.times_ms) - 1
        for index, elements in _by_time(rows):
            idle = not (elements or columns.present or any(map(is_active, alerts.values())))
            # Nothing there and nothing active: only the last time, which forgets old resolutions.
            if idle and index != last:
                continue
            hold = None
            if part.kept is not None and alerts:
                hold = Hold.of(self._context.rule, _labels_at(part.kept, index))
            alerts = self._step(int(times_ms[index]), elements, hold, alerts, columns, output)
        return alerts

    def _step(
        self,
        time_ms: int,
        elements: list[Element],
        hold: Hold | None,
        alerts: AlertTable,
        columns: SampleColumns,
        output: RuleOutput,
    ) -> AlertTable:
        context = self._context
        if self._ask is not None and context.templates.has_query:
            context.templates.query = self._ask(time_ms)
        context.templates.time_ms = time_ms
        done = step(context, alerts, time_ms, elements, hold)
        if self._collect is not None:
            done = _with_evidence(done, self._collect)
        if done.error:
            output.cleared += [
                alert
                for labels, alert in alerts.items()
                if alert.state is AlertState.FIRING and labels not in done.alerts
            ]
            output.failures.append(RuleFailure(context.rule.name, time_ms, done.error))
            return done.alerts
        output.transitions.extend(done.transitions)
        columns.write(time_ms - self._offset_ms, done.samples)
        return done.alerts


def _by_time(rows: Vector) -> Iterator[tuple[int, list[Element]]]:
    """Each time's position and the elements present at it."""
    occupied: BoolArray = np.logical_or.reduce(rows.present, axis=0, initial=False)
    for index, any_there in enumerate(occupied.tolist()):
        there = np.flatnonzero(rows.present[:, index]).tolist() if any_there else []
        yield index, [Element(rows.labels[row], float(rows.values[row, index])) for row in there]


def _labels_at(rows: Vector, index: int) -> list[Labels]:
    return [rows.labels[row] for row in np.flatnonzero(rows.present[:, index]).tolist()]


def _with_evidence(done: Step, collect: Collect) -> Step:
    found = collect(filter(is_active, done.alerts.values()))
    alerts: dict[Labels, Alert] = {
        labels: replace(alert, evidence=found[labels]) if labels in found else alert
        for labels, alert in done.alerts.items()
    }
    transitions = tuple(alerts.get(alert.labels, alert) for alert in done.transitions)
    return replace(done, alerts=alerts, transitions=transitions)
