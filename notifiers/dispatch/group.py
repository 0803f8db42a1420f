"""An aggregation group: alerts that share a route and its group labels, and when it speaks next.

Source: `aggrGroup` in dispatch/dispatch.go of Alertmanager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.labels import Labels
from notifiers.notification import fired_at_ms
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.alert import Alert
    from notifiers.routing.tree import Route


@dataclass(frozen=True, slots=True)
class Timer:
    """What outlives a restart. `flushed`: it has spoken, or had the chance to."""

    next_flush_ms: int
    flushed: bool = False


@dataclass(slots=True)
class Group:
    """`alerts`: by fingerprint, each in its newest state; resolved ones stay until all are told.

    `id` is its own alone; `key`, by which receivers and the log know it, is shared by routes with
    the same matchers. `empty_since_ms`: when the last alert left it.
    """

    id: str
    key: str
    route: Route
    labels: Mapping[str, str]
    timer: Timer
    alerts: dict[str, Alert] = field(default_factory=dict)
    empty_since_ms: int | None = None

    def insert(self, identity: str, alert: Alert, now_ms: int) -> None:
        """An alert fires or is resolved. One that fires long since does not wait again."""
        self.alerts[identity] = alert
        self.empty_since_ms = None
        old = fired_at_ms(alert) + self.route.group_wait_ms < now_ms
        if not self.timer.flushed and old:
            self.timer = Timer(now_ms)

    def flushed(self, now_ms: int) -> None:
        """It has spoken; the next time is an interval later, whatever comes."""
        self.timer = Timer(now_ms + self.route.group_interval_ms, flushed=True)

    def drop(self, identity: str, now_ms: int) -> None:
        """A resolved alert has been told to all who were to hear of it."""
        del self.alerts[identity]
        if not self.alerts:
            self.empty_since_ms = now_ms

    def split(self) -> tuple[dict[str, Alert], dict[str, Alert]]:
        """(firing, resolved), by fingerprint."""
        firing = {key: one for key, one in self.alerts.items() if is_firing(one)}
        return firing, {key: one for key, one in self.alerts.items() if key not in firing}


def is_firing(alert: Alert) -> bool:
    """Not resolved."""
    return alert.state is not AlertState.RESOLVED


def group_names(route: Route, labels: Mapping[str, str]) -> tuple[str, str]:
    """(id, key) of a group; the key is Alertmanager's, `{}/{severity="x"}:{alertname="A"}`."""
    # A name that a process gave itself may be no UTF-8; keys go into the database.
    text = str(Labels(labels)).encode("utf-8", "backslashreplace").decode()
    return f"{route.id}:{text}", f"{route.key}:{text}"
