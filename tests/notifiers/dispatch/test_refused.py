"""What was refused for good: what it told is news again, and the next incident is, too."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeAlias

import pytest

from engine.alerts.fingerprint import fingerprint
from notifiers.dead_letters import Told
from notifiers.dispatch.deduplication import REFUSED_PAUSE_MS, not_told, told_again
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.message import Addressee
from tests.notifiers.dispatch.test_against_slow import Slow
from tests.notifiers.dispatch.timeline import (
    START,
    Silences,
    alert,
    dispatcher,
    events,
    route,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from notifiers.dispatch.message import Message
    from notifiers.routing.tree import Route

Timeline: TypeAlias = "Sequence[tuple[int, list[Alert]]]"
Incident: TypeAlias = tuple[str, int, int]
ONE_AND_BLINK = ["0 +A/one", "10 +A/blink", "50 -A/blink"]


class Played:
    """A receiver that refuses whatever comes before `well`, and to which, from then on, what it
    refused is sent again at the seconds in `resends`: all, or the oldest alone with `only_first`.

    `heard`: each message that it took, `12 +A/one -A/two`; `tried`: those that it refused, too.
    Neither has those that were sent again. `made`: all, with their times.
    """

    def __init__(
        self,
        root: Route,
        timeline: Timeline,
        *,
        well: float,
        resends: Sequence[float] = (),
        until: int = 1500,
        only_first: bool = False,
        silences: Silences | None = None,
    ) -> None:
        self.log = NotificationLog()
        self.root, self.well, self.only_first, self.silences = root, well, only_first, silences
        self.heard: list[str] = []
        self.tried: list[str] = []
        self.made: list[tuple[int, Message]] = []
        self.dead: list[Message] = []
        self.newest: dict[str, Alert] = {}
        self.begin()
        for second in range(until + 1):
            self.now_ms = START + second * 1000
            self.flush()
            alerts = [one for at_ms, some in timeline for one in some if at_ms == self.now_ms]
            self.newest |= {fingerprint(one.labels): one for one in alerts}
            if second in resends:
                self.resend()
            self.dispatcher.take(alerts, self.now_ms)
            self.flush()

    def begin(self) -> None:
        self.dispatcher = dispatcher(self.root, log=self.log, silences=self.silences)

    def flush(self) -> None:
        for message in self.dispatcher.flush(self.now_ms).messages:
            self.made.append((self.now_ms, message))
            self.tried.append(self.line(message.alerts))
            if self.now_ms >= START + self.well * 1000:
                self.heard.append(self.tried[-1])
                continue
            self.dead.append(message)
            firing = {fingerprint(one.labels) for one in message.alerts if is_firing(one)}
            entry = self.log.entry(message.group_key, message.integration)
            if entry is not None and firing:
                after = not_told(entry, firing - message.retold, self.now_ms)
                self.log.write(message.group_key, message.integration, after)

    def resend(self) -> None:
        now, self.dead = (self.dead[:1], self.dead[1:]) if self.only_first else (self.dead, [])
        for message in now:
            fires = [one for one in message.alerts if self.newest[fingerprint(one.labels)] == one]
            if not fires:
                continue
            firing = frozenset(fingerprint(one.labels) for one in fires)
            to = message.group_key, message.integration
            told = Told(0, to[1], to[0], message.receiver, (), firing)
            self.log.write(*to, told_again(self.log.entry(*to), told, self.now_ms))

    def line(self, alerts: Sequence[Alert]) -> str:
        parts = [f"{'+' if is_firing(one) else '-'}A/{one.labels.get('node')}" for one in alerts]
        return " ".join([f"{(self.now_ms - START) // 1000}", *parts])


def test_what_ended_while_it_was_refused_is_told_when_it_fires_anew_after_a_resend() -> None:
    again = [line for at in (100, 180) for line in (f"{at} +A/blink", f"{at + 40} -A/blink")]
    played = Played(
        route(wait=1, interval=5, repeat=4 * 3600),
        events(*ONE_AND_BLINK, *again),
        well=70,
        resends=[70],
        until=400,
    )
    assert played.tried[:2] == ["1 +A/one", "11 +A/one +A/blink"]
    assert played.heard == [
        "101 +A/one +A/blink",
        "141 +A/one -A/blink",
        "181 +A/one +A/blink",
        "221 +A/one -A/blink",
    ]


def test_a_resend_in_the_moment_in_which_an_alert_ends_hides_nothing() -> None:
    """The group has not had its tick since."""
    played = Played(
        route(wait=1, interval=5, repeat=4 * 3600),
        events("0 +A/one", "10 +A/blink", "13 -A/blink", "30 +A/blink"),
        well=13,
        resends=[13],
        until=60,
    )
    assert played.tried[1] == "11 +A/one +A/blink"
    assert played.heard == ["31 +A/one +A/blink"]


def test_what_another_message_told_that_was_refused_is_told_when_one_is_sent_again() -> None:
    played = Played(
        route(wait=1, interval=5, repeat=4 * 3600),
        events("0 +A/one", "10 +A/two"),
        well=20,
        resends=[20],
        until=60,
        only_first=True,
    )
    assert played.tried[:2] == ["1 +A/one", "11 +A/one +A/two"]
    assert played.heard == ["21 +A/one +A/two"]


def test_incidents_shorter_than_the_pause_after_a_refusal_are_told_once_it_is_well() -> None:
    blinks = [line for at in (100, 200) for line in (f"{at} +A/blink", f"{at + 30} -A/blink")]
    alone = route(group_by=None, wait=0, interval=10, repeat=4 * 3600)
    played = Played(alone, events("0 +A/blink", "30 -A/blink", *blinks), well=150, until=280)
    # Each incident that is refused is a dead letter of its own, and none is lost.
    assert played.tried[:2] == ["0 +A/blink", "100 +A/blink"]
    assert played.heard == ["200 +A/blink", "240 -A/blink"]


def test_one_incident_that_is_refused_waits_for_the_pause() -> None:
    alone = route(group_by=None, wait=0, interval=10, repeat=4 * 3600)
    played = Played(alone, events("0 +A/one"), well=50, until=400)
    assert played.tried == ["0 +A/one", f"{REFUSED_PAUSE_MS // 1000} +A/one"]


def test_what_ended_silenced_while_it_was_refused_is_told_when_it_fires_anew() -> None:
    alone = route(group_by=None, wait=0, interval=10, repeat=4 * 3600)
    lines = events("0 +A/blink", "30 -A/blink", "80 +A/blink")
    played = Played(alone, lines, well=50, until=100, silences=Silences("A", 20, 60))
    assert played.heard == ["80 +A/blink"]


def test_what_ended_while_nothing_ran_is_told_when_it_fires_anew() -> None:
    played = Played(route(wait=0, interval=10), events("0 +A/blink"), well=5, until=5)
    played.begin()
    for line in ("20 +A/blink", "40 +A/blink"):
        played.now_ms = START + int(line[:2]) * 1000
        over = alert("A/blink", 20, over=True, fired=0)
        played.dispatcher.take([over if line[0] == "2" else alert("A/blink", 40)], played.now_ms)
        played.flush()
    assert played.heard == ["40 +A/blink"]


def test_without_a_refusal_who_asks_for_no_resolutions_hears_as_from_alertmanager() -> None:
    """While others of the group fire, one that comes back is told with the next news or repeat."""
    blinks = [line for at in (10, 50, 90) for line in (f"{at} +A/blink", f"{at + 20} -A/blink")]
    quiet = {"ops": [Addressee("ops", send_resolved=False)]}
    heard = told(
        route(wait=0, interval=5), "0 +A/one", *blinks, "120 +A/two", until=150, addressees=quiet
    )
    assert heard == [
        "0 ops: +A/one (first notification)",
        "15 ops: +A/one +A/blink (new alerts added)",
        "125 ops: +A/one +A/two (new alerts added)",
    ]


class SlowRefused(Slow):
    """The slow dispatcher before a receiver that refuses what comes before `well_ms`."""

    def __init__(self, root: Route, well_ms: int, resends_ms: Sequence[int]) -> None:
        super().__init__(root)
        self.well_ms, self.resends_ms = well_ms, resends_ms
        self.refused: dict[str, int] = {}
        self.dead: list[tuple[str, list[Alert]]] = []
        self.newest: dict[str, Alert] = {}

    def run(self, timeline: Timeline, end_ms: int) -> list[str]:
        for now_ms in range(START, end_ms + 1, 1000):
            self.flush(now_ms)
            alerts = [one for time_ms, some in timeline for one in some if time_ms == now_ms]
            self.newest |= {fingerprint(one.labels): one for one in alerts}
            if now_ms in self.resends_ms:
                self.resend(now_ms)
            for one in alerts:
                self.take(one, now_ms)
            self.flush(now_ms)
        return self.found

    def speak(self, name: str, now_ms: int) -> None:
        fires = [one for one in self.alerts[name].values() if is_firing(one)]
        firing = {fingerprint(one.labels) for one in fires}
        told, made = set(self.told[name]), len(self.found)
        if now_ms - self.refused.get(name, now_ms) >= REFUSED_PAUSE_MS:
            self.said[name] = set()
        # The next time that it fires is another incident, and this one is known to nobody.
        self.said[name] -= (self.alerts[name].keys() - firing) - told
        super().speak(name, now_ms)
        if len(self.found) == made:
            return
        self.refused.pop(name, None)
        if fires and now_ms < self.well_ms:
            self.refused[name] = now_ms
            self.told[name] -= firing - told
            self.dead.append((name, fires))

    def resend(self, now_ms: int) -> None:
        for name, fired in self.dead:
            keys = {fingerprint(one.labels) for one in fired if one in self.newest.values()}
            if keys:
                self.said[name] = self.said[name] & self.told[name] | keys
                self.told[name] |= keys
                self.sent[name] = now_ms
                self.refused.pop(name, None)
        self.dead = []


def incidents(chance: random.Random) -> tuple[list[tuple[int, list[Alert]]], list[Incident]]:
    """Events of six alerts over a quarter of an hour, and when each fired and ended."""
    state: dict[str, int] = {}
    timeline, found = [], []
    for second in sorted(chance.sample(range(900), k=80)):
        name = f"{chance.choice('AB')}/{chance.choice('123')}"
        fired = state.pop(name, None)
        over = fired is not None
        if fired is None:
            fired = state[name] = second
        else:
            found.append((name, fired, second))
        timeline.append((START + second * 1000, [alert(name, second, over=over, fired=fired)]))
    return timeline, found


@pytest.mark.parametrize("seed", range(30))
def test_refused_or_not_messages_are_those_of_a_slow_dispatcher(seed: int) -> None:
    chance = random.Random(seed)
    root = route(
        wait=chance.choice([0, 1, 7]),
        interval=chance.choice([5, 13, 60]),
        repeat=chance.choice([400, 4 * 3600]),
    )
    timeline, found = incidents(chance)
    well = chance.randrange(50, 600)
    resends = [well + chance.randrange(60), well + chance.randrange(60, 300)]
    played = Played(root, timeline, well=well, resends=resends)
    fast = []
    for at_ms, message in played.made:
        firing = [fingerprint(one.labels) for one in message.alerts if is_firing(one)]
        over = [fingerprint(one.labels) for one in message.alerts if not is_firing(one)]
        fast.append(f"{at_ms} {sorted(firing)} {sorted(over)}")
    slow = SlowRefused(root, START + well * 1000, [START + at * 1000 for at in resends])
    assert sorted(fast) == sorted(slow.run(timeline, START + 1_500_000))
    assert_told(played, root, found, resends[0])


def assert_told(played: Played, root: Route, found: list[Incident], since: float) -> None:
    """Each incident that its group sees begin, and fire at a tick, is told before it ends."""
    tick = root.group_interval_ms // 1000 + 1
    longest = tick + root.group_wait_ms // 1000
    ended: dict[str, int] = {}
    for name, fired, over in found:
        apart = fired - ended.get(name, -tick) >= tick
        ended[name] = over
        if fired < since or over - fired < longest or not apart:
            continue
        own = alert(name, fired)
        said = [at_ms for at_ms, message in played.made if own in message.alerts]
        assert any(START + fired * 1000 <= at_ms <= START + over * 1000 for at_ms in said)
