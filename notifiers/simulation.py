"""Delivery in simulated time: which messages alerts call for, and when.

The dispatcher is the live one; only the clock and the log's disk are left out. A message counts as
taken in the moment in which it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.opening import addressees, open_dispatcher
from notifiers.integrations import integrations
from notifiers.notification import fired_at_ms
from notifiers.origin import Origin
from notifiers.routing.plan import Plan
from notifiers.silences.index import SilenceIndex
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.config.model import Config
    from engine.labels import Labels
    from notifiers.dispatch.dispatcher import Dispatcher
    from notifiers.dispatch.message import Addressee, Message
    from notifiers.dispatch.muting import Watch
    from notifiers.silences.silence import Silence


@dataclass(frozen=True, slots=True)
class Sent:
    """A message and its time, in unix milliseconds."""

    time_ms: int
    message: Message


def transitions(alerts: Iterable[Alert]) -> list[tuple[int, list[Alert]]]:
    """From alerts as they stand in the end to when each fired and ended: events for `simulate`.

    In the order of time, those of one moment together, ends first.
    """
    found: dict[int, list[Alert]] = {}
    for alert in alerts:
        fires = replace(alert, state=AlertState.FIRING, resolved_at_ms=None)
        found.setdefault(fired_at_ms(alert), []).append(fires)
        if alert.resolved_at_ms is not None:
            over = replace(alert, state=AlertState.RESOLVED)
            found.setdefault(alert.resolved_at_ms, []).append(over)
    return [(at_ms, sorted(found[at_ms], key=is_firing)) for at_ms in sorted(found)]


def simulate(
    dispatcher: Dispatcher, events: Iterable[tuple[int, Sequence[Alert]]], end_ms: int
) -> Iterator[Sent]:
    """The messages up to `end_ms`. `events`: alerts that fire or resolve, by time, in its order.

    A timer that ends when an alert comes, ends first.
    """
    for time_ms, alerts in events:
        yield from _until(dispatcher, time_ms)
        dispatcher.take(alerts, time_ms)
        yield from _flush(dispatcher, time_ms)
    yield from _until(dispatcher, end_ms)


def _until(dispatcher: Dispatcher, time_ms: int) -> Iterator[Sent]:
    while (due_ms := dispatcher.next_ms()) is not None and due_ms <= time_ms:
        yield from _flush(dispatcher, due_ms)


def _flush(dispatcher: Dispatcher, time_ms: int) -> Iterator[Sent]:
    for message in dispatcher.flush(time_ms).messages:
        yield Sent(time_ms, message)


@dataclass(frozen=True, slots=True)
class _Standing:
    """`notifiers.dispatch.muting.Silences` that nobody changes."""

    index: SilenceIndex

    def current(self) -> SilenceIndex:
        return self.index


@dataclass(frozen=True, slots=True)
class Setup:
    """Who is told of what, by a configuration. `to`: integrations by receiver."""

    plan: Plan
    to: Mapping[str, list[Addressee]]
    origin: Origin

    @classmethod
    def of(cls, config: Config) -> Setup:
        """Raises StallwatchError for a receiver that cannot be set up."""
        return cls(Plan.of(config), addressees(integrations(config)), Origin.of(config))

    def is_dropped(self, alert: Alert) -> bool:
        """Whether relabelling drops it, so that nobody is told."""
        return self.origin.relabelled(alert.labels) is None

    def sent_labels(self, alert: Alert) -> Labels:
        """The labels that receivers are sent; of an alert that relabelling drops, those before."""
        return self.origin.relabelled(alert.labels) or self.origin.labelled(alert.labels)

    def dispatcher(
        self, silences: Iterable[Silence] = (), watch: Watch | None = None
    ) -> Dispatcher:
        """A dispatcher that has told nobody of anything. `silences`: all that there will be."""
        return open_dispatcher(
            self.plan,
            self.to,
            self.origin,
            NotificationLog(),
            silences=_Standing(SilenceIndex(silences)),
            watch=watch,
        )
