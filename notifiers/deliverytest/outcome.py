"""What a test's delivery came to: the messages of each receiver, and what was kept back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from notifiers.dispatch.group import is_firing
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.muting import Muted
    from notifiers.routing.tree import Route
    from notifiers.simulation import Sent, Setup


@dataclass(frozen=True, slots=True)
class Told:
    """A message that a receiver got, by the labels that are sent; `at_ms` since the start.

    What several integrations of one receiver are told alike is one of these.
    """

    at_ms: int
    receiver: str
    firing: tuple[Labels, ...]
    resolved: tuple[Labels, ...]
    reason: str
    group_key: str
    integrations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptBack:
    """An alert of which a route told nothing when its group's time had come."""

    at_ms: int
    receiver: str
    labels: Labels
    why: Muted


@dataclass(slots=True)
class Outcome:
    """`alerts`: all, each as it stood in the end. `limited`: by integration, messages too many."""

    setup: Setup
    start_ms: int
    alerts: Sequence[Alert]
    told: list[Told] = field(default_factory=list)
    kept_back: list[KeptBack] = field(default_factory=list)
    limited: dict[str, int] = field(default_factory=dict)

    def watch(self, route: Route, alert: Alert, time_ms: int, why: Muted) -> None:
        """See `notifiers.dispatch.muting.Watch`."""
        at_ms, labels = time_ms - self.start_ms, self.setup.sent_labels(alert)
        self.kept_back.append(KeptBack(at_ms, route.receiver, labels, why))

    def take(self, messages: Iterable[Sent]) -> None:
        """All messages, in the order of time."""
        found: dict[Told, list[str]] = {}
        for sent in messages:
            message = sent.message
            labels = [(is_firing(alert), message.labels_of(alert)) for alert in message.alerts]
            told = Told(
                sent.time_ms - self.start_ms,
                message.receiver,
                tuple(own for fires, own in labels if fires),
                tuple(own for fires, own in labels if not fires),
                message.reason,
                message.group_key,
            )
            found.setdefault(told, []).append(message.integration)
        self.told = [replace(told, integrations=tuple(keys)) for told, keys in found.items()]
