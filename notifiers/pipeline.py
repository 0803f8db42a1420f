"""From alerts to groups for receivers: stages, each alerts in and alerts out, then the route.

The order is Alertmanager's: inhibit, silence, route, group. Each has its place here; a stage that
does not exist yet is simply not in the tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert

Stage: TypeAlias = Callable[[Sequence["Alert"]], Sequence["Alert"]]


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """Alerts that go out in one message to one receiver."""

    receiver: str
    labels: Mapping[str, str]
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`stages` may drop alerts; what is left goes to every one of `receivers`, a group each."""

    receivers: tuple[str, ...]
    stages: tuple[Stage, ...] = ()

    def groups(self, alerts: Sequence[Alert]) -> list[AlertGroup]:
        """The messages that these alerts call for, in the alerts' order."""
        for stage in self.stages:
            alerts = stage(alerts)
        return [
            AlertGroup(receiver, alert.labels.to_dict(), (alert,))
            for alert in alerts
            for receiver in self.receivers
        ]
