"""Which alerts an Alertmanager must be told again, so that it does not think them over.

Alertmanager ends an alert at the `endsAt` that it was last told. So a firing alert is sent again
and again, each time with an end a little further off, and a resolved one for a while, in case that
the first word of its end was lost. Source: `sendAlerts`, `needsSending` and `resolvedRetention` in
rules/alerting.go of Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from notifiers.notification import status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.alerts.alert import Alert
    from engine.labels import Labels

RESEND_MS = 60_000
RESOLVED_MS = 15 * 60_000
# An alert outlives three words of it that are lost.
LOST_WORDS = 4


def valid_until_ms(now_ms: int, interval_ms: int, resend_ms: int = RESEND_MS) -> int:
    """When a firing alert ends unless it is told of again: `endsAt`, in unix milliseconds.

    `interval_ms`: how often its rule is evaluated.
    """
    return now_ms + LOST_WORDS * max(interval_ms, resend_ms)


@dataclass(frozen=True, slots=True)
class _Told:
    alert: Alert
    at_ms: int


class Resender:
    """Who was told of what, and when it is time to say it again. Pure: times come from outside.

    An alert is known by its labels. Whoever sends calls `told` with what was taken, be it for the
    first time or again, and asks `due` for what to send next. Not thread-safe.
    """

    def __init__(self, resend_ms: int = RESEND_MS, resolved_ms: int = RESOLVED_MS) -> None:
        self._resend_ms = resend_ms
        self._resolved_ms = resolved_ms
        self._told: dict[Labels, _Told] = {}

    def __len__(self) -> int:
        return len(self._told)

    def told(self, alerts: Iterable[Alert], now_ms: int) -> None:
        """The Alertmanager has just taken these, in their present state."""
        for alert in alerts:
            self._told[alert.labels] = _Told(alert, now_ms)

    def forget(self, alerts: Iterable[Alert]) -> None:
        """These are nobody's any more (their route or receiver has gone, or they are silenced)."""
        for alert in alerts:
            self._told.pop(alert.labels, None)

    def due(self, now_ms: int) -> tuple[Alert, ...]:
        """What must be sent again now, longest untold first; what has been over long is dropped."""
        self._told = {
            labels: one for labels, one in self._told.items() if not self._over(one.alert, now_ms)
        }
        # A last time in the future means that the clock was set back since.
        waiting = [
            one
            for one in self._told.values()
            if not one.at_ms <= now_ms < one.at_ms + self._resend_ms
        ]
        return tuple(one.alert for one in sorted(waiting, key=lambda one: one.at_ms))

    def next_ms(self) -> int | None:
        """When `due` has something to say next; None while nothing is to be said again."""
        return min((one.at_ms + self._resend_ms for one in self._told.values()), default=None)

    def _over(self, alert: Alert, now_ms: int) -> bool:
        if status_of(alert) == "firing" or alert.resolved_at_ms is None:
            return False
        return now_ms > alert.resolved_at_ms + self._resolved_ms
