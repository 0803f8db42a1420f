"""Runs rules over a scenario's series with the rule runners of live and dry-run.

As in promtool every group is evaluated at `evaluation_interval`, whatever its own interval, from
the scenario's start to its last check. Rules that allow it are evaluated along whole stretches
of time at once, so that a test over a year costs no year of single evaluations.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.alert import AlertState
from engine.alerts.machine import is_active
from engine.baselines.folds import Folds
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis
from engine.rulegroup.dependencies import components, reads_in, reads_of
from engine.rulegroup.options import GroupOptions
from engine.rulegroup.runner import RuleRunner
from engine.rulegroup.state import RuleState
from engine.ruletest.storage import ScenarioStorage
from engine.series import stale_mask
from rules.groups import place
from rules.promql.ast import VectorSelector
from rules.promql.walk import unwrapped
from rules.slotted import dataclass, field
from rules.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert
    from engine.promql.value import Result
    from engine.rulegroup.dependencies import Component
    from engine.rulegroup.output import RuleFailure
    from engine.ruletest.model import Scenario
    from engine.series import Int64Array, Series
    from rules.model import AlertingRule, Group, Rule
    from rules.promql.ast import Expr

MOST_EVALUATIONS = 10_000_000
# Steps of one stretch, fewer where there are many series.
LONGEST_STRETCH = 8_192
MOST_ELEMENTS = 4_000_000


@dataclass(slots=True)
class FailedRule:
    """A rule that could not be evaluated `count` times, first at `failure`."""

    rule: Rule
    group: Group
    failure: RuleFailure
    count: int = 1

    @property
    def span(self) -> Span:
        """Where in its file the expression failed."""
        expression = self.rule.expression
        parts = self.failure.place.rsplit(":", 2)[1:]
        if not parts:
            return place(expression.offsets, Span(0, len(expression.text.rstrip())))
        start = expression.source.offset(*map(int, parts))
        return Span(start, start + 1)


@dataclass(slots=True)
class Simulation:
    """What became of one scenario.

    `active`: alerts with their rules, pending ones included, by evaluation time since the start
    and name, for the times and names of its checks.
    `stretches_ms`: int64[T] each, the evaluation times as they were cut. `fired`: if asked for,
    every alert that fired, as it stood in the end, in no order.
    """

    scenario: Scenario
    storage: ScenarioStorage
    options: GroupOptions
    runners: tuple[RuleRunner, ...]
    stretches_ms: tuple[Int64Array, ...]
    active: dict[tuple[int, str], list[tuple[Alert, AlertingRule]]] = field(default_factory=dict)
    failures: dict[tuple[int, str], FailedRule] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    fired: list[Alert] | None = None

    def firing_at(self, eval_time_ms: int, alertname: str) -> list[Alert]:
        """The alerts of a name that fire after the last evaluation that is not later."""
        active = self._active_at(eval_time_ms, alertname)
        return [alert for alert, _ in active if alert.state is AlertState.FIRING]

    def pending_at(self, eval_time_ms: int, alertname: str) -> list[tuple[Alert, AlertingRule]]:
        """Those that do not fire yet, each with its rule."""
        active = self._active_at(eval_time_ms, alertname)
        return [pair for pair in active if pair[0].state is AlertState.PENDING]

    def _active_at(self, eval_time_ms: int, alertname: str) -> list[tuple[Alert, AlertingRule]]:
        interval_ms = self.options.interval_ms
        return self.active.get((eval_time_ms // interval_ms * interval_ms, alertname), [])

    def query(self, expr: Expr, eval_time_ms: int) -> Result:
        """An instant query over everything there is after the last evaluation.

        Raises EvaluationError.
        """
        time_ms = self.scenario.start_ms + eval_time_ms
        axis = Axis(np.array([time_ms], dtype=np.int64), 0)
        return evaluate(expr, axis, self.storage, self.options.engine)

    def selected(self, expr: Expr, eval_time_ms: int) -> list[Series] | None:
        """What `name{...}` selects, each series up to its newest sample; None for another `expr`.

        For native histograms, which the evaluator hands on but does not give back.
        """
        expr = unwrapped(expr)
        plain = isinstance(expr, VectorSelector) and expr.at is None and expr.modifier is None
        if not isinstance(expr, VectorSelector) or not plain:
            return None
        time_ms = self.scenario.start_ms + eval_time_ms
        if expr.offset is not None:
            time_ms -= expr.offset.milliseconds
        oldest_ms = time_ms - self.options.engine.lookback_ms + 1
        found = self.storage.select(expr.matchers, oldest_ms, time_ms)
        return [one for one in found if not stale_mask(one.values[-1:])[0]]


def evaluations(scenario: Scenario, interval_ms: int) -> int:
    """How often every group is evaluated."""
    return scenario.duration_ms // interval_ms + 1


def simulate(
    scenario: Scenario,
    groups: Sequence[Group],
    interval_ms: int,
    *,
    start_timestamps: bool = False,
    keeps_fired: bool = False,
) -> Simulation:
    """Evaluate the groups, in this order, every `interval_ms` until the last check.

    `keeps_fired`: see `Simulation.fired`. The caller has seen to it that these are at most
    MOST_EVALUATIONS.
    """
    count = evaluations(scenario, interval_ms)
    times_ms = scenario.start_ms + np.arange(count, dtype=np.int64) * interval_ms
    storage = ScenarioStorage(scenario, int(times_ms[-1]))
    options = GroupOptions(
        interval_ms=interval_ms,
        external_labels=scenario.external_labels,
        external_url=scenario.external_url,
        engine=Options(
            delayed_name_removal=False,
            start_timestamps=start_timestamps,
            folds=Folds(origin_ms=scenario.start_ms),
        ),
    )
    simulation = Simulation(
        scenario,
        storage,
        options,
        tuple(_runners(scenario, groups, options)),
        _stretches(scenario, times_ms, interval_ms, storage.series_count),
        fired=[] if keeps_fired else None,
    )
    offsets = [(runner.rule, runner.offset_ms) for runner in simulation.runners]
    order = components(offsets)
    for stretch_ms in simulation.stretches_ms:
        for component in order:
            _run_component(simulation, component, stretch_ms)
        _keep_active(simulation, int(stretch_ms[-1]))
    for runner in simulation.runners:
        _keep_fired(simulation, runner, runner.state.alerts.values(), AlertState.FIRING)
    return simulation


def _runners(
    scenario: Scenario, groups: Iterable[Group], options: GroupOptions
) -> Iterable[RuleRunner]:
    """One per rule. Only what some rule or check reads is written as a series."""
    rules = [rule for group in groups for rule in group.rules]
    reads = [reads_of(rule) for rule in rules]
    reads += [reads_in(check.expression.tree) for check in scenario.expression_checks]
    for group in groups:
        for rule in group.rules:
            is_read = any(wanted.touches(rule) for wanted in reads)
            yield RuleRunner(rule, group, options, RuleState(), is_replay=True, is_read=is_read)


def _stretches(
    scenario: Scenario, times_ms: Int64Array, interval_ms: int, series: int
) -> tuple[Int64Array, ...]:
    """The times, cut after each evaluation whose alerts are looked at, and into equal parts."""
    longest = max(1, min(LONGEST_STRETCH, MOST_ELEMENTS // max(1, series)))
    cuts = {check.eval_time_ms // interval_ms + 1 for check in scenario.alert_checks}
    cuts.update(range(0, len(times_ms), longest))
    edges = sorted({*cuts, len(times_ms)})
    return tuple(times_ms[start:end] for start, end in pairwise(edges))


def _run_component(simulation: Simulation, component: Component, times_ms: Int64Array) -> None:
    members = [simulation.runners[index] for index in component.members]
    steps = [times_ms]
    if component.stepwise:
        steps = [times_ms[index : index + 1] for index in range(len(times_ms))]
    for step in steps:
        for runner in members:
            output = runner.run(step, simulation.storage)
            if runner.is_read:
                simulation.storage.append(output.series, runner.offset_ms)
            _keep_fired(simulation, runner, output.transitions, AlertState.RESOLVED)
            _keep_fired(simulation, runner, output.cleared, AlertState.FIRING)
            simulation.warnings.update(output.warnings)
            for failure in output.failures:
                _count(simulation, runner, failure)


def _count(simulation: Simulation, runner: RuleRunner, failure: RuleFailure) -> None:
    key = (id(runner), failure.message)
    known = simulation.failures.get(key)
    if known is None:
        simulation.failures[key] = FailedRule(runner.rule, runner.group, failure)
    else:
        known.count += 1


def _keep_fired(
    simulation: Simulation, runner: RuleRunner, alerts: Iterable[Alert], state: AlertState
) -> None:
    """Note the alerts in a state of which no other one can come."""
    if simulation.fired is not None and runner.context is not None:
        settled = runner.context.templates.settled
        simulation.fired += [settled(alert) for alert in alerts if alert.state is state]


def _keep_active(simulation: Simulation, time_ms: int) -> None:
    """Note the alerts that a check will ask for."""
    offset_ms = time_ms - simulation.scenario.start_ms
    interval_ms = simulation.options.interval_ms
    wanted = {
        check.alertname
        for check in simulation.scenario.alert_checks
        if check.eval_time_ms // interval_ms * interval_ms == offset_ms
    }
    for runner in simulation.runners:
        context = runner.context
        if context is None or context.rule.name not in wanted:
            continue
        found = simulation.active.setdefault((offset_ms, context.rule.name), [])
        for alert in filter(is_active, runner.state.alerts.values()):
            found.append((context.templates.settled(alert), context.rule))
