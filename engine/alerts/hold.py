"""What a rule's resolve expression keeps firing: a second, lower threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from engine.labels import METRIC_NAME
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.labels import Labels
    from rules.model import AlertingRule

_Names: TypeAlias = "tuple[str, ...]"
_ALERT_NAME = "alertname"


@dataclass(frozen=True, slots=True)
class Hold:
    """The elements of a resolve expression at one time, by the names of their labels.

    An element holds every alert that has all of its labels with the same values, so that one of
    `sum by (task_id) (...)` holds all ranks of a task, and one without labels all of a rule's
    alerts. Its metric name and the labels that the rule itself sets do not count, since an alert
    has the rule's whatever the expression gives.
    """

    values: Mapping[_Names, frozenset[tuple[str, ...]]]

    @classmethod
    def of(cls, rule: AlertingRule, elements: Iterable[Labels]) -> Hold:
        """From the labels of the elements."""
        own = {METRIC_NAME, _ALERT_NAME, *rule.labels}
        found: dict[_Names, set[tuple[str, ...]]] = {}
        for labels in elements:
            pairs = [pair for pair in labels.pairs if pair[0] not in own]
            names = tuple(name for name, _ in pairs)
            found.setdefault(names, set()).add(tuple(value for _, value in pairs))
        return cls({names: frozenset(values) for names, values in found.items()})

    def covers(self, alert: Labels) -> bool:
        """Whether any element holds the alert with these labels."""
        return any(
            tuple(alert.get(name, "") for name in names) in values
            for names, values in self.values.items()
        )
