"""Playing a timeline by the clock to several sides at once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.delivery.configuration import GROUP_INTERVAL_SECONDS
from bench.delivery.hook import name_of
from bench.delivery.sides import Peer, Post
from bench.delivery.timeline import ON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.delivery.sides import Side
    from bench.delivery.timeline import Step, Timeline

# How long before it began an old alert has fired.
OLD_SECONDS = 60.0
# Alertmanager is told again of what fires, as Prometheus does.
RESEND_SECONDS = 30


@dataclass(slots=True)
class Played:
    """`ends`: by alert, unix seconds. `late_seconds`: the most by which a step was too late."""

    ends: dict[str, list[float]] = field(default_factory=dict)
    late_seconds: float = 0.0
    posts: int = 0


def play(timeline: Timeline, sides: Sequence[Side]) -> Played:
    """Do every step at its time; returns when nothing more is to come."""
    now = time.time()
    # The start is a multiple of the interval since 1970, as timelines want it.
    epoch = (now // GROUP_INTERVAL_SECONDS + 1) * GROUP_INTERVAL_SECONDS
    playing = _Playing(timeline, sides, epoch)
    for step in timeline.steps:
        _wait_until(epoch + step.at)
        playing.do(step)
        late = time.time() - epoch - step.at
        playing.played.late_seconds = max(playing.played.late_seconds, late)
    _wait_until(epoch + timeline.seconds)
    return playing.played


def _wait_until(at: float) -> None:
    while (left := at - time.time()) > 0:
        time.sleep(left)


class _Playing:
    def __init__(self, timeline: Timeline, sides: Sequence[Side], epoch: float) -> None:
        self.timeline, self.sides, self.epoch = timeline, sides, epoch
        self.played = Played()
        self.began: dict[int, float] = {}
        self.resent = epoch

    def do(self, step: Step) -> None:
        at = self.epoch + step.at
        for side in self.sides:
            for silence in step.silence:
                side.silence(silence, self.epoch)
            for number in step.expire:
                side.expire(number)
        posts = [*self._ended(step, at), *self._begun(step, at)]
        self.played.posts += len(posts)
        for side in self.sides:
            if posts:
                side.tell(posts)
        on_multiple = step.at % GROUP_INTERVAL_SECONDS == ON
        if on_multiple and at - self.resent >= RESEND_SECONDS and self.began:
            self.resent = at
            for side in (one for one in self.sides if isinstance(one, Peer)):
                side.tell([Post(self._labels(one), began) for one, began in self.began.items()])

    def _ended(self, step: Step, at: float) -> list[Post]:
        posts = []
        for number in step.resolve:
            labels = self._labels(number)
            self.played.ends.setdefault(name_of(labels), []).append(at)
            posts.append(Post(labels, self.began.pop(number), at))
        return posts

    def _begun(self, step: Step, at: float) -> list[Post]:
        self.began |= dict.fromkeys(step.fire, at) | dict.fromkeys(step.old, at - OLD_SECONDS)
        return [Post(self._labels(each), self.began[each]) for each in (*step.fire, *step.old)]

    def _labels(self, number: int) -> dict[str, str]:
        return self.timeline.alerts[number]
