"""`/api/v2/alerts` and `/api/v2/alerts/groups` (api/v2/api.go in Alertmanager)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.alerts.matchers import all_match
from notifiers.api.answers import answered
from notifiers.api.filters import flag, matchers_of, receiver_filter
from notifiers.notification import fired_at_ms
from notifiers.silences.encoding import date_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.alerts.matchers import Matcher
    from engine.http.message import Request, Response
    from notifiers.api.sources import RoutedAlert, RoutedAlerts

# How long an alert counts as firing without news: four times the interval at which a firing alert
# is sent again (notifier in Prometheus: `ValidUntil`, --rules.alert.resend-delay).
VALID_MS = 4 * 60_000


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts a request asks for. `unprocessed` is read and has no effect: none ever is."""

    matchers: tuple[Matcher, ...]
    silenced: bool
    inhibited: bool
    active: bool
    receiver: Callable[[str], bool] | None

    @classmethod
    def of(cls, request: Request) -> AlertFilter:
        """The filter of a request. Raises RequestError."""
        flag(request, "unprocessed")
        return cls(
            tuple(matchers_of(request)),
            flag(request, "silenced"),
            flag(request, "inhibited"),
            flag(request, "active"),
            receiver_filter(request),
        )

    def reaches(self, receivers: Sequence[str]) -> bool:
        """Whether one of these is asked for."""
        return self.receiver is None or any(map(self.receiver, receivers))

    def takes(self, routed: RoutedAlert) -> bool:
        """Whether an alert is to be shown, whoever is told of it."""
        suppression = routed.suppression
        if not self.active and not is_suppressed(routed):
            return False
        if not self.silenced and suppression.silenced_by:
            return False
        if not self.inhibited and suppression.inhibited_by:
            return False
        return all_match(self.matchers, routed.alert.labels)


def alerts(sources: RoutedAlerts, request: Request) -> Response:
    """Every firing alert that the request asks for, by fingerprint."""
    wanted = AlertFilter.of(request)
    found = [
        encode_alert(routed)
        for routed in sources.alerts()
        if wanted.reaches(routed.receivers) and wanted.takes(routed)
    ]
    return answered(sorted(found, key=lambda one: str(one["fingerprint"])))


def groups(sources: RoutedAlerts, request: Request) -> Response:
    """The groups of the receivers asked for, each with the alerts asked for, if any are left."""
    wanted = AlertFilter.of(request)
    muted = flag(request, "muted")
    shown = []
    for group in sources.groups():
        chosen = [one for one in group.alerts if wanted.takes(one)]
        if not muted:
            chosen = [one for one in chosen if not one.suppression.muted_by]
        if chosen and wanted.reaches([group.receiver]):
            shown.append(
                {
                    "alerts": [encode_alert(one) for one in chosen],
                    "labels": dict(group.labels),
                    "receiver": {"name": group.receiver},
                }
            )
    return answered(sorted(shown, key=_place))


def encode_alert(routed: RoutedAlert) -> dict[str, Any]:
    """An alert as the API shows it (`gettableAlert`)."""
    alert, suppression = routed.alert, routed.suppression
    seen_ms = fired_at_ms(alert)
    if alert.last_evaluation_ms is not None:
        seen_ms = alert.last_evaluation_ms
    return {
        "annotations": dict(alert.annotations),
        "endsAt": date_time(seen_ms + VALID_MS),
        "fingerprint": routed.fingerprint,
        "receivers": [{"name": name} for name in routed.receivers],
        "startsAt": date_time(fired_at_ms(alert)),
        "status": {
            "inhibitedBy": list(suppression.inhibited_by),
            "mutedBy": list(suppression.muted_by),
            "silencedBy": list(suppression.silenced_by),
            "state": "suppressed" if is_suppressed(routed) else "active",
        },
        "updatedAt": date_time(seen_ms),
        "generatorURL": alert.generator_url,
        "labels": alert.labels.to_dict(),
    }


def is_suppressed(routed: RoutedAlert) -> bool:
    """Whether nobody is told of it now."""
    found = routed.suppression
    return bool(found.silenced_by or found.inhibited_by or found.muted_by)


def _place(group: Mapping[str, Any]) -> tuple[int, list[tuple[str, str]], str]:
    """By labels, fewer first, then by receiver (`AlertGroups` in dispatch/dispatch.go)."""
    labels = group["labels"]
    return len(labels), sorted(labels.items()), group["receiver"]["name"]
