"""What keeps an alert from a message: inhibition, the route's times, silences, in this order.

Source: the stages of notify/notify.go in Alertmanager (`MuteStage`, `TimeActiveStage`,
`TimeMuteStage`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.inhibition import Inhibitor
    from notifiers.routing.tree import Route

Kind: TypeAlias = Literal["inhibited", "inactive", "muted", "silenced"]


def _as_they_are(labels: Labels) -> Labels:
    return labels


class Times(Protocol):
    """Time intervals by name."""

    def contains(self, names: Iterable[str], time_ms: int) -> tuple[str, ...]:
        """Those that hold at a time."""
        ...


class Silencing(Protocol):
    """The silences of one moment."""

    def silencing(self, labels: Labels, now_ms: int) -> tuple[str, ...]:
        """Ids of the active ones that match."""
        ...


class Silences(Protocol):
    """The silences that there are, whoever changes them."""

    def current(self) -> Silencing:
        """Those of now."""
        ...


@dataclass(frozen=True, slots=True)
class Muted:
    """Why nothing is told. `by`: names of intervals, ids of silences, fingerprints of alerts."""

    kind: Kind
    by: tuple[str, ...]


Watch: TypeAlias = "Callable[[Route, Alert, int, Muted], None]"
"""Hears of each alert that is kept back when its group speaks (unix milliseconds), and why."""


@dataclass(frozen=True, slots=True)
class Muting:
    """All that mutes. An alert that is resolved is muted as one that fires: its end waits.

    `labelled`: from an alert's labels to those that are sent, by which rules and silences know it;
    None: it is dropped. `watch`: for who simulates.
    """

    inhibitor: Inhibitor
    times: Times
    silences: Silences | None = None
    labelled: Callable[[Labels], Labels | None] = _as_they_are
    watch: Watch | None = None

    def of_route(self, route: Route, now_ms: int) -> Muted | None:
        """Why a route tells nothing now; None: it tells."""
        active = route.active_time_intervals
        if active and not self.times.contains(active, now_ms):
            return Muted("inactive", active)
        if route.mute_time_intervals and (
            by := self.times.contains(route.mute_time_intervals, now_ms)
        ):
            return Muted("muted", by)
        return None

    def heard(self, alerts: Mapping[str, Alert], route: Route, now_ms: int) -> dict[str, Alert]:
        """Those that nothing keeps back."""
        quiet = self.of_route(route, now_ms)
        if quiet is not None and self.watch is None:
            return {}
        silencing = None if self.silences is None else self.silences.current()
        found = {}
        for key, alert in alerts.items():
            labels = self.labelled(alert.labels)
            if labels is None:
                continue
            why = self._why(labels, quiet, silencing, now_ms)
            if why is None:
                found[key] = alert
            elif self.watch is not None:
                self.watch(route, alert, now_ms, why)
        return found

    def _why(
        self, labels: Labels, quiet: Muted | None, silencing: Silencing | None, now_ms: int
    ) -> Muted | None:
        if by := self.inhibitor.inhibited_by(labels):
            return Muted("inhibited", by)
        if quiet is not None:
            return quiet
        ids = () if silencing is None else silencing.silencing(labels, now_ms)
        return Muted("silenced", ids) if ids else None
