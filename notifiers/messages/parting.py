"""A group that is told in several messages: which alerts are in which, and how many were taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from notifiers.messages.order import worst_first
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification


def part(
    notification: Notification, most: int, shown: Callable[[Notification], int]
) -> tuple[tuple[Alert, ...], ...]:
    """The alerts of each message, at most `most` of them, the worst first.

    `shown`: how many of a notification's alerts one message shows, rather than counts. The last
    message has all that is left, and counts what it cannot show.
    """
    rest = worst_first(notification.alerts)
    parts: list[tuple[Alert, ...]] = []
    while len(parts) < most - 1:
        count = max(1, shown(replace(notification, alerts=rest)))
        if count >= len(rest):
            break
        parts.append(rest[:count])
        rest = rest[count:]
    return (*parts, rest)


@dataclass(slots=True)
class Progress:
    """How far the messages of one notification have come.

    A retry goes on with those that were not taken, so nobody reads a part twice; after a restart
    all of them are sent again, as repeats.
    """

    identity: str = ""
    parts: tuple[tuple[Alert, ...], ...] = ()
    taken: int = 0

    def left(
        self, notification: Notification, parting: Callable[[], tuple[tuple[Alert, ...], ...]]
    ) -> Iterator[Notification]:
        """The messages that are to be sent; one is taken when the next is asked for."""
        if self.identity != notification.id:
            self.identity, self.parts, self.taken = notification.id, parting(), 0
        total = len(self.parts)
        while self.taken < total:
            place = self.taken
            number = (place + 1, total)
            yield replace(notification, alerts=self.parts[place], part=number)
            self.taken = place + 1
        self.identity, self.parts, self.taken = "", (), 0
