"""A random timeline: what fires, resolves and is silenced, and when. The same for the same seed.

Every group ticks 1 s after a multiple of 3 s since 1970: an alert that may begin a group comes on
such a multiple, which `group_wait` later is a tick, and a group that is there ticks then anyhow. So
it does not matter when Alertmanager, every 30 s, takes empty groups away. All else happens between
0.6 s and 1.6 s before a tick, so that neither side can see it on another side of a tick.

On a busy machine a group's ticks come later and later, since each timer starts when the one before
was heard. So a timeline has chapters, each with alerts of its own and so groups of its own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.delivery.configuration import GROUP_INTERVAL_SECONDS, GROUP_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

Labels = dict[str, str]
# Seconds from a multiple of 3 s: before, on and after it. Only what comes on it may begin a group.
BEFORE, ON, AFTER = -0.6, 0.0, 0.4
ALERTS = 34
CHAPTER_BEATS = 30
# A message that tells nothing new may be due so long after all has ended.
REST_SECONDS = 2 * GROUP_INTERVAL_SECONDS


@dataclass(frozen=True, slots=True)
class Silence:
    """`number` is its name; times are seconds since the timeline's start. `matchers`: of two."""

    number: int
    matchers: tuple[tuple[str, str, str], ...]
    starts: float
    ends: float


@dataclass(frozen=True, slots=True)
class Step:
    """What happens at one moment, in seconds since the start (a multiple of 3 s since 1970).

    `old`: alerts that fire, and have done so for a minute. `expire`: numbers of silences.
    """

    at: float
    fire: tuple[int, ...] = ()
    resolve: tuple[int, ...] = ()
    silence: tuple[Silence, ...] = ()
    expire: tuple[int, ...] = ()
    old: tuple[int, ...] = ()


@dataclass(slots=True)
class Timeline:
    """`alerts`: labels, by the number that steps use. `steps`: in order of time.

    `silences`: how many there are.
    """

    seed: int
    alerts: list[Labels] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    silences: int = 0

    @property
    def seconds(self) -> float:
        """How long it takes, until nobody has anything to say any more."""
        return self.steps[-1].at + REST_SECONDS + GROUP_WAIT_SECONDS + 1


def population(draw: random.Random, cluster: str) -> list[Labels]:
    """Different alerts of one chapter; a label that is drawn empty is left out."""
    found: dict[str, Labels] = {}
    while len(found) < ALERTS:
        labels = {
            "alertname": draw.choice(["Down", "Slow", "Hot", "Wait"]),
            "node": draw.choice(["n1", "n2", "n3", "n4"]),
            "team": draw.choice(["net", "fabric", "gpu", ""]),
            "zone": draw.choice(["a", "b", ""]),
            "severity": draw.choice(["critical", "warning", "warning"]),
            "cluster": cluster,
        }
        kept = {name: value for name, value in labels.items() if value}
        found[str(sorted(kept.items()))] = kept
    return list(found.values())


def timeline(seed: int, seconds: float) -> Timeline:
    """One of about so many seconds; at its end everything resolves and no silence is left."""
    draw = random.Random(seed)
    made = Timeline(seed)
    beats = max(4, int((seconds - REST_SECONDS) / GROUP_INTERVAL_SECONDS))
    for chapter, first in enumerate(range(1, beats, CHAPTER_BEATS)):
        story = _Story(draw, made, f"c{chapter}")
        # The last beats are left for what the ends of a chapter call for.
        last = min(first + CHAPTER_BEATS, beats) - 2
        for beat in range(first, last):
            made.steps += story.beat(float(beat * GROUP_INTERVAL_SECONDS))
        made.steps.append(story.end(float(last * GROUP_INTERVAL_SECONDS)))
    return made


class _Story:
    """What fires and what is silenced, as a chapter is drawn."""

    def __init__(self, draw: random.Random, made: Timeline, cluster: str) -> None:
        self.draw, self.made = draw, made
        self.own = range(len(made.alerts), len(made.alerts) + ALERTS)
        made.alerts += population(draw, cluster)
        self.firing: set[int] = set()
        self.open: dict[int, Silence] = {}
        # Now and then it is quiet, so that groups repeat themselves and empty ones are forgotten.
        self.liveliness = 1.0

    def beat(self, at: float) -> Iterator[Step]:
        if self.draw.random() < 0.15:
            self.liveliness = self.draw.choice([0.0, 0.2, 0.6, 1.0])
        yield Step(
            at + BEFORE,
            resolve=self.resolved(0.12),
            silence=self.silenced(at + BEFORE, 0.15),
            expire=self.expired(at + BEFORE, 0.1),
        )
        ended = self.resolved(0.06)
        fires = self.fired(0.08, ended)
        yield Step(at + ON, fire=fires, resolve=ended, silence=self.silenced(at, 0.1))
        yield Step(at + AFTER, resolve=self.resolved(0.06), expire=self.expired(at + AFTER, 0.06))
        if self.draw.random() < 0.1:
            yield Step(at + GROUP_WAIT_SECONDS, old=self.late())

    def end(self, at: float) -> Step:
        silenced = (number for number, one in sorted(self.open.items()) if one.ends > at)
        return Step(at, resolve=tuple(sorted(self.firing)), expire=tuple(silenced))

    def fired(self, share: float, ended: tuple[int, ...]) -> tuple[int, ...]:
        rest = [one for one in self.own if one not in self.firing and one not in ended]
        chosen = [one for one in rest if self.draw.random() < share * self.liveliness]
        self.firing.update(chosen)
        return tuple(chosen)

    def resolved(self, share: float) -> tuple[int, ...]:
        share *= self.liveliness
        chosen = [one for one in sorted(self.firing) if self.draw.random() < share]
        self.firing.difference_update(chosen)
        return tuple(chosen)

    def late(self) -> tuple[int, ...]:
        """One that fires for long already, on a tick; its groups are its own."""
        number = len(self.made.alerts)
        self.made.alerts.append({"alertname": "Late", "node": f"late-{number}"})
        self.firing.add(number)
        return (number,)

    def silenced(self, at: float, chance: float) -> tuple[Silence, ...]:
        if self.draw.random() >= chance:
            return ()
        matchers = self.draw.choice(
            [
                (("alertname", "=", self.draw.choice(["Slow", "Hot", "Down", "Wait"])),),
                (("node", "=~", self.draw.choice(["n[12]", "n1", "n3|n4"])),),
                (("severity", "!=", "critical"), ("zone", "!~", "b|a")),
                (("team", "=", ""), ("alertname", "!~", "Slow|Down")),
                (("zone", "=", self.draw.choice("ab")), ("node", "!=", "n2")),
            ]
        )
        starts = at + self.draw.choice([0, 0, GROUP_INTERVAL_SECONDS])
        # Its end lies between ticks too, unless it is expired before.
        ends = starts + GROUP_INTERVAL_SECONDS * self.draw.choice([2, 4, 7, 12])
        made = Silence(self.made.silences, matchers, starts, ends)
        self.made.silences += 1
        self.open[made.number] = made
        return (made,)

    def expired(self, at: float, chance: float) -> tuple[int, ...]:
        for number in [number for number, one in self.open.items() if one.ends <= at]:
            del self.open[number]
        if not self.open or self.draw.random() >= chance:
            return ()
        number = self.draw.choice(sorted(self.open))
        # One that ends at this very moment is left to end by itself.
        if self.open[number].ends - at < GROUP_INTERVAL_SECONDS:
            return ()
        del self.open[number]
        return (number,)
