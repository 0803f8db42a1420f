"""Alerts that are sent with the same labels are one alert: it fires while any of them does.

`alert_relabel_configs` may take away what tells them apart. One of them leads: it is the one that
groups, messages and the log know. When it ends and another one fires, that one takes its place, and
nobody is told of an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch.group import is_firing
from notifiers.notification import fired_at_ms
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.log import NotificationLog


@dataclass(slots=True)
class Taken:
    """What became of alerts. Alerts are named by their fingerprints.

    `alerts`: those that lead and are new or have changed, with the labels that are sent.
    `handed`: who takes whose place. `over`: resolved, and nobody needs to hear of it.
    """

    alerts: list[tuple[Alert, Labels]] = field(default_factory=list)
    handed: list[tuple[str, str]] = field(default_factory=list)
    over: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Family:
    members: dict[str, Alert] = field(default_factory=dict)
    lead: str = ""


class Twins:
    """`sent`: from an alert's own labels to those that are sent; None: it is dropped."""

    def __init__(self, sent: Callable[[Labels], Labels | None], log: NotificationLog) -> None:
        self._sent = sent
        self._log = log
        self._families: dict[Labels, _Family] = {}
        self._family_of: dict[str, Labels] = {}

    def take(self, alerts: Iterable[Alert]) -> Taken:
        """Alerts that fire or are resolved, each in its newest state."""
        taken = Taken()
        touched: dict[Labels, set[str]] = {}
        for alert in alerts:
            identity, labels = fingerprint(alert.labels), self._sent(alert.labels)
            if labels is not None:
                self._families.setdefault(labels, _Family()).members[identity] = alert
                touched.setdefault(labels, set()).add(identity)
            elif not is_firing(alert):
                taken.over.append(identity)
        for labels, changed in touched.items():
            self._settle(labels, changed, taken)
        return taken

    def forget(self, identity: str) -> None:
        """An alert is resolved, and whoever had to be told was."""
        labels = self._family_of.pop(identity, None)
        if labels is not None:
            self._families.pop(labels, None)

    def _settle(self, labels: Labels, changed: set[str], taken: Taken) -> None:
        family = self._families[labels]
        before, members = family.lead, family.members
        family.lead = self._leader(family)
        lead = members[family.lead]
        for identity, one in list(members.items()):
            if identity == family.lead:
                continue
            if identity == before or self._log.owing(identity):
                taken.handed.append((identity, family.lead))
            if not is_firing(one):
                del members[identity]
                taken.over.append(identity)
        if family.lead in changed or family.lead != before:
            taken.alerts.append((lead, labels))
        self._family_of.pop(before, None)
        self._family_of[family.lead] = labels

    def _leader(self, family: _Family) -> str:
        """The one that leads already or of which somebody was told, as long as it fires."""
        members = family.members
        if len(members) == 1:
            return next(iter(members))

        def rank(identity: str) -> tuple[bool, bool, bool, int, str]:
            alert = members[identity]
            is_known = bool(self._log.owing(identity))
            is_lead = identity == family.lead
            return not is_firing(alert), not is_lead, not is_known, fired_at_ms(alert), identity

        return min(members, key=rank)
