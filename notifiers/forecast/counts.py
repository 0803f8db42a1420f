"""Counts of messages by receiver and integration, and of what was kept back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from notifiers.notification import ALL_RESOLVED, REPEAT_INTERVAL, fired_at_ms
from notifiers.simulation import simulate, transitions
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.muting import Kind, Muted
    from notifiers.forecast.night import Night
    from notifiers.routing.tree import Route
    from notifiers.silences.silence import Silence
    from notifiers.simulation import Sent, Setup

# What is counted of alerts that are kept back; a route that is not active is as good as muted.
KINDS: dict[Kind, str] = {
    "inhibited": "inhibited",
    "inactive": "muted",
    "muted": "muted",
    "silenced": "silenced",
}


@dataclass(slots=True)
class MessageCounts:
    """Of one integration or receiver. `resolved`: messages that tell of ends alone.

    `limited`: those that there would have been without a rate limit.
    `hours`: messages by the hour of the clock, by when it began in unix milliseconds.
    """

    messages: int = 0
    at_night: int = 0
    repeats: int = 0
    resolved: int = 0
    limited: int = 0
    hours: Counter[int] = field(default_factory=Counter)

    def add(self, sent: Sent, night: Night) -> None:
        """One more message."""
        self.messages += 1
        self.at_night += night.has(sent.time_ms)
        self.repeats += sent.message.reason == REPEAT_INTERVAL
        self.resolved += sent.message.reason == ALL_RESOLVED
        self.hours[night.hour_ms(sent.time_ms)] += 1

    @property
    def busiest(self) -> tuple[int, int] | None:
        """When the hour with the most messages began, the first of several, and how many."""
        most = max(self.hours.values(), default=0)
        hours = [hour for hour, count in self.hours.items() if count == most]
        return (min(hours), most) if hours else None


@dataclass(slots=True)
class ReceiverCounts:
    """A receiver's messages, all integrations together and each by itself.

    `kept_back`: alerts, each firing once, that were kept back at least once when their group's
    time had come, by `inhibited`, `muted` or `silenced`, whichever comes first in this order.
    """

    all: MessageCounts = field(default_factory=MessageCounts)
    integrations: dict[str, MessageCounts] = field(default_factory=dict)
    kept_back: dict[str, set[tuple[Labels, int]]] = field(
        default_factory=lambda: {name: set() for name in KINDS.values()}
    )


@dataclass(slots=True)
class Forecast:
    """What alerts would have cost. `sent`: the messages, where they were asked for."""

    start_ms: int
    end_ms: int
    alerts: int
    night: Night
    receivers: dict[str, ReceiverCounts]
    sent: list[Sent] = field(default_factory=list)

    def watch(self, route: Route, alert: Alert, time_ms: int, why: Muted) -> None:  # noqa: ARG002 - a Watch
        """See `notifiers.dispatch.muting.Watch`."""
        counts = self.receivers.get(route.receiver)
        if counts is not None:
            counts.kept_back[KINDS[why.kind]].add((alert.labels, fired_at_ms(alert)))

    def add(self, sent: Sent) -> None:
        """One more message."""
        counts = self.receivers[sent.message.receiver]
        counts.all.add(sent, self.night)
        counts.integrations[sent.message.integration].add(sent, self.night)


def forecast(
    setup: Setup,
    alerts: Sequence[Alert],
    start_ms: int,
    end_ms: int,
    night: Night,
    silences: Iterable[Silence] = (),
    keeps_sent: bool = False,
) -> Forecast:
    """What alerts, each as it stood in the end, would have cost the receivers of `setup`.

    By the live dispatcher, in simulated time.
    """
    receivers = {
        name: ReceiverCounts(integrations={one.key: MessageCounts() for one in own})
        for name, own in setup.to.items()
    }
    found = Forecast(start_ms, end_ms, len(alerts), night, receivers)
    # The index goes by ids, which silences from a file do not have.
    known = [replace(one, id=one.id or str(place)) for place, one in enumerate(silences)]
    dispatcher = setup.dispatcher(known, found.watch)
    for sent in simulate(dispatcher, transitions(alerts), end_ms):
        found.add(sent)
        if keeps_sent:
            found.sent.append(sent)
    for name, own in setup.to.items():
        for one in own:
            held = dispatcher.limiter.budget(one.key).held_total
            found.receivers[name].integrations[one.key].limited = held
            found.receivers[name].all.limited += held
    return found
