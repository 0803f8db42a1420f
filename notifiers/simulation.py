"""Delivery in simulated time: which messages alerts call for, and when.

The dispatcher is the live one; only the clock and the log's disk are left out. A message counts as
taken in the moment in which it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.alerts.alert import Alert
    from notifiers.dispatch.dispatcher import Dispatcher
    from notifiers.dispatch.message import Message


@dataclass(frozen=True, slots=True)
class Sent:
    """A message and its time, in unix milliseconds."""

    time_ms: int
    message: Message


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
