"""The running agent as the HTTP server sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.machine import is_active
from engine.explanation.data import Data
from engine.explanation.question import Grounds
from engine.http.sources import GroupStatus
from engine.promql.engine import evaluate
from rules.promql.parser import parse
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.alerts.alert import Alert, Suppression
    from engine.http.message import Handler
    from engine.pipeline.agent import Agent
    from engine.promql.value import Axis, Result
    from engine.readings import ProbeStatus
    from engine.rulegroup.runner import GroupRunner
    from engine.series import Queryable
    from engine.telemetry import OwnSample


@dataclass(frozen=True, slots=True)
class AgentView:
    """Implements `engine.http.sources.Sources` on an agent. Reads only; safe from any thread."""

    agent: Agent

    @property
    def queryable(self) -> Queryable:
        """The live window."""
        return self.agent.store

    def query(self, expression: str, axis: Axis) -> Result:
        """Evaluate over the live window. Raises ProblemsError and EvaluationError."""
        options = self.agent.group_options().engine
        # Who asks moves nothing that rules have learnt.
        options = replace(options, folds=self.agent.baselines.folds.reading())
        return evaluate(parse(expression), axis, self.agent.store, options)

    def alerts(self) -> Sequence[Alert]:
        """Pending and firing alerts of all rules."""
        return [
            alert
            for runner in self.agent.evaluator.runners
            for status in runner.statuses
            for alert in _active(status.alerts)
        ]

    def suppression(self, alert: Alert) -> Suppression:
        """What the delivery keeps back."""
        return self.agent.delivery.suppression(alert)

    def mounted(self) -> Mapping[str, Handler]:
        """The delivery's own API."""
        return self.agent.delivery.mounted(self.alerts)

    def rule_groups(self) -> Sequence[GroupStatus]:
        """All groups in file order."""
        return [_group(runner) for runner in self.agent.evaluator.runners]

    def grounds(self) -> Grounds:
        """The rules as they run, over the live window; what they have learnt is not moved."""
        runners = self.agent.evaluator.runners
        groups = tuple(replace(own.group, interval_ms=own.interval_ms) for own in runners)
        options = self.agent.group_options()
        data = Data(self.agent.store, options.engine, self.agent.baselines.folds)
        return Grounds(groups, data, options.query_offset_ms)

    def samples(self) -> Sequence[OwnSample]:
        """The agent's own metrics."""
        return self.agent.telemetry.samples()

    def probe_statuses(self) -> Sequence[ProbeStatus]:
        """How each probe stands."""
        return list(self.agent.collector.statuses.values())

    def unready(self) -> str:
        """Why not ready; the first flush makes the metrics of the probes visible."""
        return "" if self.agent.started else "the probes are being attached"


def _active(alerts: Sequence[Alert]) -> tuple[Alert, ...]:
    return tuple(filter(is_active, alerts))


def _group(runner: GroupRunner) -> GroupStatus:
    statuses = tuple(replace(status, alerts=_active(status.alerts)) for status in runner.statuses)
    return GroupStatus(
        name=runner.group.name,
        file=runner.group.file,
        interval_ms=runner.interval_ms,
        limit=runner.group.limit,
        rules=statuses,
        evaluation_seconds=sum(status.evaluation_seconds for status in statuses),
        last_evaluation_ms=runner.state.last_evaluation_ms,
    )
