"""Inhibition: while a source fires, targets that agree with it on some labels are muted.

Source: inhibit/inhibit.go of Alertmanager. A label that both sides lack counts as equal. An alert
that matches both sides of a rule is not inhibited by another one that does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from engine.alerts.matchers import Matcher, all_match
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.config.model import InhibitRuleConfig
    from engine.labels import Labels


@dataclass(frozen=True, slots=True)
class Source:
    """What has to fire: all matchers hold. `equal`: labels on which it and the target agree."""

    matchers: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InhibitRule:
    """While all of `sources` fire, alerts that match `target` are muted."""

    sources: tuple[Source, ...]
    target: tuple[Matcher, ...]
    name: str = ""

    @classmethod
    def of(cls, config: InhibitRuleConfig) -> InhibitRule:
        """The rule of a configuration."""
        alone = Source(config.source_matchers, config.equal)
        several = tuple(Source(each.matchers, each.equal) for each in config.sources)
        return cls(several or (alone,), config.target_matchers, config.name)


# A job that suffers says why: while its tier 2 alert fires, its tier 1 alerts wake nobody. A task
# without a name is no task, and agrees with nothing.
TIER_RULE = InhibitRule(
    (Source((Matcher("tier", "=", "2"), Matcher("task_id", "!=", "")), ("task_id",)),),
    (Matcher("tier", "=", "1"), Matcher("task_id", "!=", "")),
    "tier",
)


@dataclass(slots=True)
class _Firing:
    """The firing alerts of one source, by the values of its equal labels, then by fingerprint.

    The value says whether the alert matches the rule's target side too.
    """

    source: Source
    target: tuple[Matcher, ...]
    alerts: dict[tuple[str, ...], dict[str, bool]] = field(default_factory=dict)

    def agreed(self, labels: Labels) -> tuple[str, ...]:
        return tuple(labels.get(name) for name in self.source.equal)

    def take(self, identity: str, labels: Labels, *, fires: bool) -> None:
        if not all_match(self.source.matchers, labels):
            return
        agreed = self.agreed(labels)
        if fires:
            both = all_match(self.target, labels)
            self.alerts.setdefault(agreed, {})[identity] = both
        elif found := self.alerts.get(agreed):
            found.pop(identity, None)
            if not found:
                del self.alerts[agreed]

    def inhibiting(self, labels: Labels) -> list[str]:
        """Those that agree with a target."""
        found = self.alerts.get(self.agreed(labels))
        if not found:
            return []
        if all_match(self.source.matchers, labels):
            return [identity for identity, both in found.items() if not both]
        return list(found)


class Inhibitor:
    """Which alerts mute which. One thread uses it."""

    def __init__(self, rules: Iterable[InhibitRule]) -> None:
        self._rules = [
            (rule, [_Firing(source, rule.target) for source in rule.sources]) for rule in rules
        ]

    def take(self, labels: Labels, *, fires: bool) -> None:
        """An alert with these labels fires, or does not any more."""
        identity = fingerprint(labels)
        for _, sources in self._rules:
            for firing in sources:
                firing.take(identity, labels, fires=fires)

    def inhibited_by(self, labels: Labels) -> tuple[str, ...]:
        """Fingerprints of the firing alerts that mute one with these labels, each once."""
        found: dict[str, None] = {}
        for rule, sources in self._rules:
            if not any(firing.alerts for firing in sources) or not all_match(rule.target, labels):
                continue
            agreeing = [firing.inhibiting(labels) for firing in sources]
            if all(agreeing):
                found |= dict.fromkeys(identity for each in agreeing for identity in each)
        return tuple(found)
