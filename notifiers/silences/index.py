"""Which silences match an alert, without asking each silence about each alert."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from engine.alerts.matchers import all_match
from engine.labels import Labels
from notifiers.silences.gates import Gates
from rules.promql.regex import alternatives

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.alerts.matchers import Matcher
    from notifiers.silences.silence import Silence

Pair: TypeAlias = tuple[str, str]

# Alerts whose silences are remembered; more alerts than that are looked up anew.
REMEMBERED = 100_000


class SilenceIndex:
    """The silences of one moment. Safe to use from several threads.

    A silence that asks for `label="value"`, or for one of several values, is kept under these and
    only looked at for alerts that have one; under the matcher whose values the fewest silences ask
    for. What an alert's labels match does not depend on time and is remembered; whether a silence
    holds now is asked each time.
    """

    def __init__(self, silences: Iterable[Silence]) -> None:
        self.silences: tuple[Silence, ...] = tuple(sorted(silences, key=lambda one: one.id))
        self._by_pair: dict[Pair, list[Silence]] = {}
        self._matching: dict[Labels, tuple[Silence, ...]] = {}
        choices = {one.id: list(_choices(one)) for one in self.silences}
        wanted = Counter(pair for own in choices.values() for pairs in own for pair in pairs)
        gated = []
        for one in self.silences:
            if not choices[one.id]:
                # One without matchers, which no store takes, silences nothing.
                gated += [one] if one.matchers else []
                continue
            rarest = min(choices[one.id], key=lambda pairs: sum(wanted[pair] for pair in pairs))
            for pair in rarest:
                self._by_pair.setdefault(pair, []).append(one)
        self._gates = Gates(gated)

    def silencing(self, labels: Labels | Mapping[str, str], now_ms: int) -> tuple[str, ...]:
        """The ids of the silences that hold back an alert with these labels now, sorted."""
        if not self.silences:
            return ()
        own = labels if isinstance(labels, Labels) else Labels(labels)
        matching = self._matching.get(own)
        if matching is None:
            matching = self._match(own)
            if len(self._matching) >= REMEMBERED:
                self._matching.clear()
            self._matching[own] = matching
        if not matching:
            return ()
        return tuple(one.id for one in matching if one.state(now_ms) == "active")

    def _match(self, labels: Labels) -> tuple[Silence, ...]:
        known = labels.to_dict()
        found = [one for one in self._candidates(known) if all_match(one.matchers, known)]
        return tuple(sorted(found, key=lambda one: one.id))

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[Silence]:
        """Each once: a silence is kept under values of one label, of which an alert has one."""
        yield from self._gates.open_to(labels)
        for pair in labels.items():
            yield from self._by_pair.get(pair, ())


def _choices(silence: Silence) -> Iterator[list[Pair]]:
    """For each matcher that asks for one of certain values: what an alert may have."""
    for matcher in silence.matchers:
        values = _values(matcher)
        if values is not None and "" not in values:
            yield [(matcher.label, value) for value in values]


def _values(matcher: Matcher) -> frozenset[str] | None:
    if matcher.op == "=":
        return frozenset((matcher.value,))
    return alternatives(matcher.value) if matcher.op == "=~" else None
