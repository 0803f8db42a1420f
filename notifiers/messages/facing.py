"""What a message says of the alerts that an alert keeps back, and gives back when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.wording import inert
from engine.timestamps import format_rfc3339
from notifiers.notification import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.alerts.alert import Alert, Inhibited

KEEPS_BACK, GIVES_BACK = "Keeps back", "Gives back"
MOST_NAMED = 5


def facing(alert: Alert) -> Iterator[tuple[str, str]]:
    """One fact, or none: `TcpRetransmitSpike rank 0, 3 since 2026-01-02T03:04:05Z`."""
    if alert.inhibited:
        name = KEEPS_BACK if status_of(alert) == "firing" else GIVES_BACK
        yield name, "; ".join(_kinds(alert.inhibited))


def _kinds(found: Sequence[Inhibited]) -> Iterator[str]:
    by_name: dict[str, list[Inhibited]] = {}
    for one in found:
        by_name.setdefault(one.labels.get("alertname"), []).append(one)
    for name, own in list(by_name.items())[:MOST_NAMED]:
        ranks = sorted({one.labels.get("rank") for one in own} - {""}, key=lambda r: (len(r), r))
        whose = f" rank {', '.join(map(inert, ranks))}" if ranks else ""
        count = f" ({len(own)})" if len(own) > max(1, len(ranks)) else ""
        since = format_rfc3339(min(one.since_ms for one in own))
        yield f"{inert(name, 80)}{whose}{count} since {since}"
    if len(by_name) > MOST_NAMED:
        yield f"and {len(by_name) - MOST_NAMED} other kinds"
