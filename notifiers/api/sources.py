"""What the API shows of the delivery: the dispatcher tells it, or a table of alerts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from engine.alerts.alert import AlertState, Suppression
from engine.alerts.fingerprint import fingerprint
from engine.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from notifiers.routing.tree import Route
    from notifiers.silences.store import Silences


@dataclass(frozen=True, slots=True)
class RoutedAlert:
    """A firing alert with the labels that are sent, who is told, and what keeps that back."""

    alert: Alert
    receivers: tuple[str, ...] = ()
    suppression: Suppression = field(default_factory=Suppression)

    @property
    def fingerprint(self) -> str:
        """Alertmanager's fingerprint of the labels."""
        return fingerprint(self.alert.labels)


@dataclass(frozen=True, slots=True)
class RoutedGroup:
    """What goes out in one message; `labels` are those that the group's alerts share."""

    receiver: str
    labels: Mapping[str, str]
    alerts: tuple[RoutedAlert, ...]


class RoutedAlerts(Protocol):
    """The alerts as the delivery sees them now. Called from several threads at once."""

    def alerts(self) -> Sequence[RoutedAlert]:
        """Every firing alert once."""
        ...

    def groups(self) -> Sequence[RoutedGroup]:
        """Firing alerts by group; an alert may be in several."""
        ...

    def suppression(self, alert: Alert) -> Suppression:
        """What keeps notifications of an alert back, `alert` being as the rules gave it."""
        ...


def _nothing(_: Labels) -> Suppression:
    return Suppression()


def _as_they_are(labels: Labels) -> Labels:
    return labels


@dataclass(frozen=True, slots=True)
class AlertTable:
    """`RoutedAlerts` over the alerts of the rules: where routes lead them, and their silences.

    `active` gives pending and firing alerts with the rules' own labels. `root`: the routing tree.
    `clock`: unix milliseconds. `sent`: from an alert's own labels to those that are sent; None: it
    is dropped. `kept_back`: from the labels that are sent to what inhibits or mutes an alert now.
    """

    active: Callable[[], Sequence[Alert]]
    root: Route
    silences: Silences
    clock: Callable[[], int]
    sent: Callable[[Labels], Labels | None] = _as_they_are
    kept_back: Callable[[Labels], Suppression] = _nothing

    def alerts(self) -> Sequence[RoutedAlert]:
        """Every firing alert that is not dropped; those that are sent as one are one."""
        return [routed for routed, _ in self._routed()]

    def groups(self) -> Sequence[RoutedGroup]:
        """A group for each route and each of the label sets that it groups by."""
        found: dict[tuple[str, str, Labels], list[RoutedAlert]] = {}
        for routed, taken in self._routed():
            for route in taken:
                labels = Labels(route.group_labels(routed.alert.labels))
                found.setdefault((route.id, route.receiver, labels), []).append(routed)
        return [
            RoutedGroup(receiver, labels.to_dict(), tuple(alerts))
            for (_, receiver, labels), alerts in found.items()
        ]

    def suppression(self, alert: Alert) -> Suppression:
        """Its silences; they see the labels that are sent, external ones included."""
        labels = self.sent(alert.labels)
        if labels is None:
            return Suppression(dropped=True)
        silenced = self.silences.silencing(labels, self.clock())
        return replace(self.kept_back(labels), silenced_by=silenced)

    def _routed(self) -> Iterator[tuple[RoutedAlert, list[Route]]]:
        silences, now_ms = self.silences.current(), self.clock()
        seen: set[Labels] = set()
        for alert in self.active():
            labels = self.sent(alert.labels)
            if alert.state is not AlertState.FIRING or labels is None or labels in seen:
                continue
            seen.add(labels)
            taken = self.root.match(labels)
            routed = RoutedAlert(
                replace(alert, labels=labels),
                tuple(route.receiver for route in taken),
                replace(self.kept_back(labels), silenced_by=silences.silencing(labels, now_ms)),
            )
            yield routed, taken
