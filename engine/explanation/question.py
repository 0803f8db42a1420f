"""An alert, the rule that it is of, and when to look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.explanation.data import nameless
from rules.errors import StallwatchError
from rules.model import AlertingRule, RecordingRule
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from engine.explanation.data import Data, Row
    from engine.explanation.statistics import Recorded
    from rules.model import Group
    from rules.promql.ast import Expr


class ExplanationError(StallwatchError):
    """An alert that cannot be explained."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What alerts come from: the rules, with the intervals in force, and the data they read.

    `query_offset_ms` holds where a group says nothing.
    """

    groups: Sequence[Group]
    data: Data
    query_offset_ms: int = 0

    @property
    def recorded(self) -> Recorded:
        """What each name stands for that one rule records."""
        found: dict[str, list[Expr]] = {}
        for group in self.groups:
            for rule in group.rules:
                if isinstance(rule, RecordingRule):
                    found.setdefault(rule.name, []).append(rule.expression.tree)
        return {name: trees[0] for name, trees in found.items() if len(trees) == 1}

    def source_of(self, alert: Alert) -> tuple[Group, AlertingRule]:
        """The rule that an alert is of. Raises ExplanationError."""
        for group in self.groups:
            if (group.file, group.name) != (alert.rule_file, alert.group):
                continue
            for rule in group.rules:
                if isinstance(rule, AlertingRule) and _is_of(rule, alert):
                    return group, rule
        raise ExplanationError(
            f"stallwatch: the rule of {alert.labels.get('alertname')} is not loaded any more\n"
            f"    hint: it was in group {alert.group} of {alert.rule_file}"
        )


def _is_of(rule: AlertingRule, alert: Alert) -> bool:
    """By name, and by the labels that are no templates: several rules may have one name."""
    fixed = {name: value for name, value in rule.labels.items() if "{{" not in value}
    return rule.name == alert.labels.get("alertname") and all(
        alert.labels.get(name) == value for name, value in fixed.items()
    )


@dataclass(frozen=True, slots=True)
class Question:
    """An alert with what is asked about it; `time_ms`: when its expression is looked at."""

    alert: Alert
    rule: AlertingRule
    data: Data
    recorded: Recorded
    time_ms: int

    def own(self, rows: Sequence[Row]) -> list[Row]:
        """The elements that may be the alert's: what both have as a label is the same.

        Labels that the rule sets say nothing of an element.
        """
        set_by_rule = {"alertname", *self.rule.labels}
        return [
            (labels, value)
            for labels, value in rows
            if all(
                name in set_by_rule or self.alert.labels.get(name) in {"", known}
                for name, known in nameless(labels)
            )
        ]


def asked(alert: Alert, grounds: Grounds) -> Question:
    """At the last evaluation, or at the one before the expression ceased to hold.

    Raises ExplanationError where its rule is gone.
    """
    group, rule = grounds.source_of(alert)
    offset_ms = grounds.query_offset_ms
    if group.query_offset_ms is not None:
        offset_ms = group.query_offset_ms
    last_ms = alert.active_at_ms if alert.last_evaluation_ms is None else alert.last_evaluation_ms
    if alert.keep_firing_since_ms is not None:
        last_ms = alert.keep_firing_since_ms - (group.interval_ms or 0)
    return Question(alert, rule, grounds.data, grounds.recorded, last_ms - offset_ms)
