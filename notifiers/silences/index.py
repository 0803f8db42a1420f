"""Which silences match an alert, without asking each silence about each alert."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.alerts.matchers import all_match
from engine.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from notifiers.silences.silence import Silence

# Alerts whose silences are remembered; more alerts than that are looked up anew.
REMEMBERED = 100_000


class SilenceIndex:
    """The silences of one moment. Safe to use from several threads.

    A silence that asks for `label="value"` is kept under one such pair, the one that the fewest
    silences ask for, and only looked at for alerts that have it. What an alert's labels match does
    not depend on time and is remembered; whether a silence holds now is asked each time.
    """

    def __init__(self, silences: Iterable[Silence]) -> None:
        self.silences: tuple[Silence, ...] = tuple(sorted(silences, key=lambda one: one.id))
        self._by_pair: dict[tuple[str, str], list[Silence]] = {}
        self._anywhere: list[Silence] = []
        self._matching: dict[Labels, tuple[Silence, ...]] = {}
        wanted = Counter(pair for one in self.silences for pair in _pairs(one))
        for one in self.silences:
            pair = min(_pairs(one), key=lambda pair: wanted[pair], default=None)
            place = self._anywhere if pair is None else self._by_pair.setdefault(pair, [])
            place.append(one)

    def silencing(self, labels: Labels | Mapping[str, str], now_ms: int) -> tuple[str, ...]:
        """The ids of the silences that hold back an alert with these labels now, sorted."""
        if not self.silences:
            return ()
        own = labels if isinstance(labels, Labels) else Labels(labels)
        matching = self._matching.get(own)
        if matching is None:
            if len(self._matching) >= REMEMBERED:
                self._matching.clear()
            matching = self._matching[own] = self._match(own)
        if not matching:
            return ()
        return tuple(one.id for one in matching if one.state(now_ms) == "active")

    def _match(self, labels: Labels) -> tuple[Silence, ...]:
        known = labels.to_dict()
        found = [one for one in self._candidates(labels) if all_match(one.matchers, known)]
        return tuple(sorted(found, key=lambda one: one.id))

    def _candidates(self, labels: Labels) -> Iterator[Silence]:
        yield from self._anywhere
        for pair in labels:
            yield from self._by_pair.get(pair, ())


def _pairs(silence: Silence) -> Sequence[tuple[str, str]]:
    """The labels that an alert must have to be silenced."""
    return [(one.label, one.value) for one in silence.matchers if one.op == "=" and one.value]
