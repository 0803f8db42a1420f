"""Which alert of a group a reader sees first, and what the group is called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.alerts.wording import inert
from notifiers.notification import fired_at_ms, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification

MAX_SUBJECT_CHARACTERS = 180
MAX_KINDS = 5
# Severities as rules in the field spell them, worst first; an unknown one stands with a warning.
_SEVERITIES = (
    {"critical", "page", "emergency", "fatal", "crit", "p1"},
    {"error", "major", "high", "err", "p2"},
    {"warning", "warn", "minor", "medium", "p3"},
    {"info", "information", "notice", "low", "p4"},
    {"none", "debug"},
)
_UNKNOWN = 2


def worst_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Firing before resolved; then by severity, tier (2 says that a job suffers) and age."""
    return tuple(sorted(alerts, key=_rank))


def _rank(alert: Alert) -> tuple[bool, int, str, int, int, tuple[tuple[str, str], ...]]:
    severity = alert.labels.get("severity").lower()
    place = next((place for place, names in enumerate(_SEVERITIES) if severity in names), _UNKNOWN)
    # Higher tiers first, and no tier last.
    tier = "".join(chr(0x10FFFF - ord(char)) for char in alert.labels.get("tier")) or "\U0010ffff"
    over = status_of(alert) == "resolved"
    # Rank 10 comes after rank 9.
    rank = len(alert.labels.get("rank"))
    return over, place, tier, fired_at_ms(alert), rank, alert.labels.pairs


def subject(notification: Notification) -> str:
    """`[FIRING:3, RESOLVED:1] TcpRetransmitSpike torchrun:job42`: one line, whatever labels hold.

    A single alert has no count.
    """
    alerts = worst_first(notification.alerts)
    parts = [f"[{_counts(notification, alerts)}]", "[TEST]" if notification.test else ""]
    parts += [_what(notification, alerts), _whose(notification, alerts)]
    return inert(" ".join(part for part in parts if part), MAX_SUBJECT_CHARACTERS)


def number_of(notification: Notification) -> str:
    """` (2/3)` behind the subject of one of several messages, else ""."""
    number, total = notification.part
    return f" ({number}/{total})" if total > 1 else ""


def kinds(alerts: Iterable[Alert]) -> str:
    """`900 TcpRetransmitSpike, 37 GpuIdle`, most first; the rarest are only counted."""
    counted = Counter(alert.labels.get("alertname", "alert") for alert in alerts)
    ordered = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{count} {inert(name, 60)}" for name, count in ordered[:MAX_KINDS]]
    rest = ordered[MAX_KINDS:]
    if rest:
        shown.append(f"{sum(count for _, count in rest)} of {len(rest)} other kinds")
    return ", ".join(shown)


def _counts(notification: Notification, alerts: Sequence[Alert]) -> str:
    if len(alerts) < 2:
        return notification.status.upper()
    counted = Counter(status_of(alert).upper() for alert in alerts)
    return ", ".join(f"{name}:{counted[name]}" for name in ("FIRING", "RESOLVED") if counted[name])


def _what(notification: Notification, alerts: Sequence[Alert]) -> str:
    names = list(dict.fromkeys(alert.labels.get("alertname") for alert in alerts))
    if len(names) == 1 and names[0]:
        return names[0]
    if not names or not names[0]:
        return notification.group_labels.get("alertname", "alert")
    # So much of each that a count and an owner always have room.
    return f"{inert(names[0], 80)} and {len(names) - 1} other alert{'s' * (len(names) > 2)}"


def _whose(notification: Notification, alerts: Sequence[Alert]) -> str:
    tasks = {alert.labels.get("task_id") for alert in alerts} - {""}
    if len(tasks) > 1:
        return f"{len(tasks)} tasks"
    if tasks:
        return tasks.pop()
    nodes = {alert.labels.get("node") for alert in alerts} - {""}
    if len(nodes) > 1:
        return f"{len(nodes)} nodes"
    return nodes.pop() if nodes else notification.origin.node
