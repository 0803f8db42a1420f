"""Inhibition: while a source fires, targets that agree with it on some labels are muted.

Source: inhibit/inhibit.go of Alertmanager. A label that both sides lack counts as equal. An alert
that matches both sides of a rule is not inhibited by another one that does.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from engine.alerts.alert import Inhibited
from engine.alerts.fingerprint import fingerprint
from engine.alerts.matchers import Matcher, all_match
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.config.model import InhibitRuleConfig
    from engine.labels import Labels


ValueT = TypeVar("ValueT")
# As many are named in a message, and by the API.
MOST_FACING = 50
# An alert without labels to agree on may face thousands.
MOST_LOOKED_AT = 500


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

    The value has its labels, and says whether it matches the rule's target side too. `targets`: the
    firing alerts of the other side, likewise.
    """

    source: Source
    target: tuple[Matcher, ...]
    alerts: dict[tuple[str, ...], dict[str, tuple[Labels, bool]]] = field(default_factory=dict)
    targets: dict[tuple[str, ...], dict[str, Inhibited]] = field(default_factory=dict)

    def agreed(self, labels: Labels) -> tuple[str, ...]:
        return tuple(labels.get(name) for name in self.source.equal)

    def take(self, identity: str, labels: Labels, since_ms: int, *, fires: bool) -> None:
        both = all_match(self.target, labels)
        if both:
            one = Inhibited(labels, since_ms)
            _note(self.targets, self.agreed(labels), identity, one if fires else None)
        if all_match(self.source.matchers, labels):
            told = (labels, both) if fires else None
            _note(self.alerts, self.agreed(labels), identity, told)

    def inhibiting(self, labels: Labels) -> Iterator[str]:
        """Those that agree with a target."""
        found = self.alerts.get(self.agreed(labels))
        if not found:
            return
        is_both = all_match(self.source.matchers, labels)
        yield from (identity for identity, (_, both) in found.items() if not (both and is_both))

    def facing(self, labels: Labels) -> Iterator[tuple[str, Inhibited]]:
        """Targets that agree with a source, not too many of them."""
        is_both = all_match(self.target, labels)
        agreeing = self.targets.get(self.agreed(labels), {})
        for identity, one in islice(agreeing.items(), MOST_LOOKED_AT):
            if not (is_both and all_match(self.source.matchers, one.labels)):
                yield identity, one


def _note(
    by_agreed: dict[tuple[str, ...], dict[str, ValueT]],
    agreed: tuple[str, ...],
    identity: str,
    value: ValueT | None,
) -> None:
    """None: it fires no more."""
    if value is not None:
        by_agreed.setdefault(agreed, {})[identity] = value
    elif found := by_agreed.get(agreed):
        found.pop(identity, None)
        if not found:
            del by_agreed[agreed]


class Inhibitor:
    """Which alerts mute which. One thread uses it."""

    def __init__(self, rules: Iterable[InhibitRule]) -> None:
        self._rules = [
            (rule, [_Firing(source, rule.target) for source in rule.sources]) for rule in rules
        ]

    def take(self, labels: Labels, since_ms: int = 0, *, fires: bool) -> None:
        """An alert with these labels fires, since then, or does not any more."""
        identity = fingerprint(labels)
        for _, sources in self._rules:
            for firing in sources:
                firing.take(identity, labels, since_ms, fires=fires)

    def facing(self, labels: Labels) -> tuple[Inhibited, ...]:
        """The firing alerts that one with these labels inhibits, or would, if it fired.

        Once it does not any more, those are left out that something else inhibits. The longest
        firing first, MOST_FACING at most.
        """
        identity = fingerprint(labels)
        found: dict[str, Inhibited] = {}
        for _, sources in self._rules:
            for firing in sources:
                if not firing.targets or not all_match(firing.source.matchers, labels):
                    continue
                fires = identity in firing.alerts.get(firing.agreed(labels), {})
                found |= {
                    target: one
                    for target, one in firing.facing(labels)
                    if (_all_inhibit(sources, one.labels) if fires else not self._mutes(one.labels))
                }
        found.pop(identity, None)
        longest = sorted(found.values(), key=lambda one: (one.since_ms, one.labels))
        return tuple(longest[:MOST_FACING])

    def _mutes(self, labels: Labels) -> bool:
        return any(
            _all_inhibit(sources, labels)
            for rule, sources in self._rules
            if all_match(rule.target, labels)
        )

    def inhibitors(self, labels: Labels) -> tuple[Labels, ...]:
        """The labels of those that `inhibited_by` names."""
        known: dict[str, Labels] = {}
        for _, sources in self._rules:
            for firing in sources:
                agreeing = firing.alerts.get(firing.agreed(labels), {})
                known |= {identity: own for identity, (own, _) in agreeing.items()}
        return tuple(known[one] for one in self.inhibited_by(labels))

    def inhibited_by(self, labels: Labels) -> tuple[str, ...]:
        """Fingerprints of the firing alerts that mute one with these labels, each once."""
        found: dict[str, None] = {}
        for rule, sources in self._rules:
            if not any(firing.alerts for firing in sources) or not all_match(rule.target, labels):
                continue
            agreeing = [list(firing.inhibiting(labels)) for firing in sources]
            if all(agreeing):
                found |= dict.fromkeys(identity for each in agreeing for identity in each)
        return tuple(found)


def _all_inhibit(sources: Sequence[_Firing], labels: Labels) -> bool:
    return all(any(True for _ in firing.inhibiting(labels)) for firing in sources)
