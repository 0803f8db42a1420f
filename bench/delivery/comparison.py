"""What both sides told, receiver by receiver and group by group; differences and why.

Sequences that are equal are equal, whatever the times. Where they differ, both are walked tick by
tick with what each side had told before. A difference is explained when each side did what its own
rule makes of one and the same state: Alertmanager's is `needsUpdate` of its notify/notify.go, ours
is the table in docs/delivery.md, written down once more and not taken from the code under test.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.delivery.configuration import GROUP_INTERVAL_SECONDS, GROUP_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.delivery.hook import Key, Told

Why: TypeAlias = Literal["end was muted", "never told", "follows", "unexplained"]
MEANING: dict[Why, str] = {
    "end was muted": "an end that was muted: told later here, never by Alertmanager",
    "never told": "an end of what nobody was told of: told by Alertmanager, left out here",
    "follows": "nothing new to one side, which had spoken at another time because of the above",
    "unexplained": "a fault on either side",
}
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Difference:
    """At one tick of one group. None: that side told nothing then."""

    key: Key
    tick: int
    why: Why
    peer: Told | None
    ours: Told | None

    def __str__(self) -> str:
        receiver, group = self.key
        peer, ours = self.peer or "nothing", self.ours or "nothing"
        sides = f"    Alertmanager: {peer}\n    stallwatch:   {ours}"
        return f"[{self.why}] {receiver} {group}, tick {self.tick}\n{sides}"


@dataclass(slots=True)
class Verdict:
    """`messages`: of either side. `equal`: groups whose sequences agree."""

    groups: int = 0
    equal: int = 0
    messages: tuple[int, int] = (0, 0)
    differences: list[Difference] = field(default_factory=list)

    def counts(self) -> Counter[str]:
        """Differences by why."""
        return Counter(one.why for one in self.differences)

    def unexplained(self) -> list[Difference]:
        """Those that fail."""
        return [one for one in self.differences if one.why == "unexplained"]


def tick_of(at: float) -> int:
    """The number of the tick that is nearest to a time."""
    return round((at - GROUP_WAIT_SECONDS) / GROUP_INTERVAL_SECONDS)


def from_tick(at: float) -> float:
    """How far from its tick a message came, in seconds."""
    return at - GROUP_WAIT_SECONDS - GROUP_INTERVAL_SECONDS * tick_of(at)


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides. `ends`: when each alert ended, unix seconds, in order.

    `keeps_owed`: an end that is muted is told later. `repeat_seconds` by receiver.
    """

    ends: Mapping[str, Sequence[float]]
    repeat_seconds: Mapping[str, float]
    keeps_owed: bool = True

    def ended_before(self, alert: str, tick: int) -> bool:
        """Its newest end lies before the tick that was before this one, where it should be told."""
        now = _time_of(tick)
        past = [each for each in self.ends.get(alert, ()) if each <= now]
        return bool(past) and past[-1] < _time_of(tick - 1)


def _time_of(tick: int) -> float:
    return tick * GROUP_INTERVAL_SECONDS + GROUP_WAIT_SECONDS


def compare(
    peer: Mapping[Key, Sequence[Told]], ours: Mapping[Key, Sequence[Told]], terms: Terms
) -> Verdict:
    """All groups of both sides."""
    verdict = Verdict()
    for key in sorted({*peer, *ours}):
        theirs, own = peer.get(key, ()), ours.get(key, ())
        verdict.groups += 1
        verdict.messages = verdict.messages[0] + len(theirs), verdict.messages[1] + len(own)
        if [(one.firing, one.resolved) for one in theirs] == [
            (one.firing, one.resolved) for one in own
        ]:
            verdict.equal += 1
        else:
            verdict.differences += _Walk(key, terms).differences(theirs, own)
    return verdict


@dataclass(slots=True)
class _Said:
    """A side's last message of a group."""

    tick: int | None = None
    firing: frozenset[str] = NOBODY
    resolved: frozenset[str] = NOBODY

    def take(self, tick: int, told: Told) -> None:
        self.tick, self.firing, self.resolved = tick, told.firing, told.resolved


class _Walk:
    """Two sequences of one group, tick by tick."""

    def __init__(self, key: Key, terms: Terms) -> None:
        self.key, self.terms = key, terms
        self.peer, self.ours = _Said(), _Said()
        # Whatever we told of as firing, and not of its end since.
        self.heard: frozenset[str] = NOBODY

    def differences(self, peer: Sequence[Told], ours: Sequence[Told]) -> Iterator[Difference]:
        theirs, own = _by_tick(peer), _by_tick(ours)
        for tick in sorted({*theirs, *own}):
            mine, other = own.get(tick, []), theirs.get(tick, [])
            if len(mine) > 1 or len(other) > 1:
                yield Difference(self.key, tick, "unexplained", other[-1], mine[-1])
                return
            one, two = next(iter(other), None), next(iter(mine), None)
            why = self._why(tick, one, two)
            if why is not None:
                yield Difference(self.key, tick, why, one, two)
            self._take(tick, one, two)

    def _take(self, tick: int, peer: Told | None, ours: Told | None) -> None:
        if peer is not None:
            self.peer.take(tick, peer)
        if ours is not None:
            self.ours.take(tick, ours)
            self.heard = (self.heard | ours.firing) - ours.resolved

    def _why(self, tick: int, peer: Told | None, ours: Told | None) -> Why | None:
        if peer is not None and ours is not None:
            return self._both(tick, peer, ours)
        if peer is not None:
            return self._only_peer(tick, peer)
        return None if ours is None else self._only_ours(tick, ours)

    def _both(self, tick: int, peer: Told, ours: Told) -> Why | None:
        left_out, late = peer.resolved - ours.resolved, ours.resolved - peer.resolved
        if peer.firing != ours.firing or left_out & self.heard or not self._late(tick, late):
            return "unexplained"
        if late:
            return "end was muted"
        return "never told" if left_out else None

    def _only_peer(self, tick: int, peer: Told) -> Why:
        """Is what Alertmanager told no news by our rule?"""
        news = peer.resolved & self.heard or (
            peer.firing and (not peer.firing <= self.ours.firing or self._repeats(tick, self.ours))
        )
        if news:
            return "unexplained"
        return "never told" if peer.resolved else "follows"

    def _only_ours(self, tick: int, ours: Told) -> Why:
        """Is what we told news by our rule, and none by Alertmanager's?"""
        late = frozenset(each for each in ours.resolved if self._late(tick, frozenset({each})))
        fresh = not ours.firing <= self.ours.firing
        due = bool(ours.firing) and self._repeats(tick, self.ours)
        if not ours.resolved <= self.heard or not (ours.resolved or fresh or due):
            return "unexplained"
        resolved = ours.resolved - late
        if ours.firing:
            theirs = (
                not ours.firing <= self.peer.firing
                or not resolved <= self.peer.resolved
                or self._repeats(tick, self.peer)
            )
        else:
            theirs = bool(resolved and self.peer.firing)
        if theirs:
            return "unexplained"
        return "end was muted" if late else "follows"

    def _late(self, tick: int, ends: frozenset[str]) -> bool:
        """We told of all of them, and they ended before the last tick."""
        if not ends:
            return True
        before = all(self.terms.ended_before(each, tick) for each in ends)
        return self.terms.keeps_owed and before and ends <= self.heard

    def _repeats(self, tick: int, said: _Said) -> bool:
        if said.tick is None:
            return True
        seconds = (tick - said.tick) * GROUP_INTERVAL_SECONDS
        return seconds > self.terms.repeat_seconds[self.key[0]]


def _by_tick(told: Sequence[Told]) -> dict[int, list[Told]]:
    found: dict[int, list[Told]] = {}
    for one in told:
        found.setdefault(tick_of(one.at), []).append(one)
    return found
