"""Why an expected message did not come: a guess that saves a look into the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from engine.alerts.matchers import all_match
from notifiers.notification import fired_at_ms
from rules.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.deliverytest.model import ExpectedMessage, WantedAlert
    from notifiers.deliverytest.outcome import KeptBack, Outcome
    from rules.source import Source


def why_not(source: Source, wanted: ExpectedMessage, outcome: Outcome) -> str:
    """A hint, "" where nothing is known."""
    if wanted.receiver not in outcome.setup.to:
        return f"receiver '{wanted.receiver}' has no integration, so that nobody is told"
    firing = () if isinstance(wanted.firing, int) else wanted.firing
    resolved = () if isinstance(wanted.resolved, int) else wanted.resolved
    for one in (*firing, *resolved):
        labels = [
            (alert, sent)
            for alert in outcome.alerts
            if all_match(one.matchers, sent := outcome.setup.sent_labels(alert))
        ]
        if not labels:
            return f"no alert of this test is {one.text}{_likest(one, outcome)}"
        if all(outcome.setup.is_dropped(alert) for alert, _ in labels):
            return f"{labels[0][1]} is dropped by 'alert_relabel_configs'"
        routed = [
            (alert, sent) for alert, sent in labels if wanted.receiver in _receivers(outcome, sent)
        ]
        if not routed:
            names = ", ".join(_receivers(outcome, labels[0][1]))
            return f"{labels[0][1]} is routed to {names}"
        kept = _last(outcome.kept_back, wanted, [sent for _, sent in routed])
        if kept is not None:
            return _told(source, kept, outcome)
        if not any(_is_there(alert, wanted.at_ms + outcome.start_ms) for alert, _ in routed):
            return f"{routed[0][1]} {_when(routed[0][0], outcome)}"
    limited = sum(outcome.limited.get(to.key, 0) for to in outcome.setup.to[wanted.receiver])
    return f"its 'rate_limit' held messages back, {limited} in this test" if limited else ""


def _likest(wanted: WantedAlert, outcome: Outcome) -> str:
    """The one that was probably meant."""
    known = {
        sent: sum(matcher.matches(sent) for matcher in wanted.matchers)
        for sent in map(outcome.setup.sent_labels, outcome.alerts)
    }
    best = max(known, key=lambda sent: known[sent], default=None)
    return f"; one is {best}" if best is not None and known[best] else ""


def _receivers(outcome: Outcome, labels: Labels) -> list[str]:
    return list(dict.fromkeys(route.receiver for route in outcome.setup.plan.root.match(labels)))


def _last(
    kept_back: Iterable[KeptBack], wanted: ExpectedMessage, labels: Iterable[Labels]
) -> KeptBack | None:
    """The newest at or before the time of the message."""
    known = set(labels)
    found = [
        one
        for one in kept_back
        if one.receiver == wanted.receiver and one.at_ms <= wanted.at_ms and one.labels in known
    ]
    return max(found, key=lambda one: one.at_ms, default=None)


def _told(source: Source, kept: KeptBack, outcome: Outcome) -> str:
    by = kept.why.by
    match kept.why.kind:
        case "inhibited":
            sent = map(outcome.setup.sent_labels, outcome.alerts)
            sources = {fingerprint(labels): labels for labels in sent}
            how = f"inhibited by {' '.join(str(sources.get(one, one)) for one in by)}"
        case "silenced":
            lines = [source.position(int(one))[0] for one in by]
            how = f"silenced, line {', '.join(map(str, lines))}"
        case "muted":
            how = f"its route is muted by {', '.join(by)}"
        case "inactive":
            how = f"its route is active only in {', '.join(by)}"
    return f"{kept.labels} was kept back at {format_duration(kept.at_ms)}: {how}"


def _is_there(alert: Alert, time_ms: int) -> bool:
    return fired_at_ms(alert) <= time_ms and (
        alert.resolved_at_ms is None or time_ms <= alert.resolved_at_ms
    )


def _when(alert: Alert, outcome: Outcome) -> str:
    since = format_duration(fired_at_ms(alert) - outcome.start_ms)
    if alert.resolved_at_ms is None:
        return f"fires from {since} on"
    return f"fires from {since} to {format_duration(alert.resolved_at_ms - outcome.start_ms)}"
