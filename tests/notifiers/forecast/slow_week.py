"""A week of delivery, half minute by half minute, by rules that are written out for one tree.

Nothing of ours is used but alerts' labels: what the dispatcher, the inhibitor, time intervals and
silences should come to is said again here, as plainly as it can be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeAlias

STEP, WAIT, INTERVAL, REPEAT = 30, 30, 300, 4 * 3600
Key: TypeAlias = tuple[str, str, str, str]
CONFIG = """
receivers:
  - name: oncall
    webhook_configs: [{url: 'http://127.0.0.1:1/'}]
  - name: network
    webhook_configs: [{url: 'http://127.0.0.1:1/'}]
route:
  receiver: oncall
  group_by: [alertname]
  routes:
    - matchers: [team="net"]
      receiver: network
      mute_time_intervals: [nights]
inhibit_rules:
  - source_matchers: [severity="critical"]
    target_matchers: [severity="warning"]
    equal: [node]
time_intervals:
  - name: nights
    time_intervals:
      - times: [{start_time: "22:00", end_time: "24:00"}, {start_time: "00:00", end_time: "06:00"}]
"""


@dataclass
class Episode:
    """An alert from one time to another, in seconds since 1970."""

    name: str
    node: str
    severity: str
    team: str
    fires: int
    over: int

    @property
    def key(self) -> Key:
        return self.name, self.node, self.severity, self.team


@dataclass
class Quiet:
    """A silence of one alert's name."""

    name: str
    starts: int
    ends: int


@dataclass
class Counts:
    messages: int = 0
    at_night: int = 0
    repeats: int = 0
    resolved: int = 0
    hours: Counter[int] = field(default_factory=Counter)
    kept_back: dict[str, set[tuple[Key, int]]] = field(default_factory=lambda: defaultdict(set))


def hour_of(now: int) -> int:
    return datetime.fromtimestamp(now, timezone.utc).hour


class SlowWeek:
    def __init__(self, episodes: list[Episode], silences: list[Quiet]) -> None:
        self.episodes, self.silences = episodes, silences
        self.counts = {"oncall": Counts(), "network": Counts()}
        self.due: dict[tuple[str, str], int] = {}
        self.emptied: dict[tuple[str, str], int] = {}
        # By group: each alert's newest episode, and whether it is over.
        self.alerts: dict[tuple[str, str], dict[Key, tuple[Episode, bool]]] = defaultdict(dict)
        self.told: dict[tuple[str, str], set[Key]] = defaultdict(set)
        self.said: dict[tuple[str, str], set[Key]] = defaultdict(set)
        self.sent: dict[tuple[str, str], int] = {}
        self.firing: dict[Key, Episode] = {}
        # When, to whom, what fires, what ended.
        self.messages: list[tuple[int, str, list[Key], list[Key]]] = []

    def run(self, start: int, end: int) -> dict[str, Counts]:
        for now in range(start, end + 1, STEP):
            self.flush(now)
            for one in self.episodes:
                if one.over == now:
                    self.take(one, now, over=True)
            for one in self.episodes:
                if one.fires == now:
                    self.take(one, now, over=False)
            self.flush(now)
        return self.counts

    def take(self, one: Episode, now: int, *, over: bool) -> None:
        if over:
            self.firing.pop(one.key, None)
        else:
            self.firing[one.key] = one
        group = ("network" if one.team == "net" else "oncall", one.name)
        if group not in self.due:
            if over and one.key not in self.told[group]:
                return
            self.due[group] = now + WAIT
        self.alerts[group][one.key] = (one, over)

    def flush(self, now: int) -> None:
        for group in [group for group, due in self.due.items() if due <= now]:
            if not self.alerts[group] and now - self.emptied[group] >= 30:
                del self.due[group]
                continue
            self.due[group] = now + INTERVAL
            self.speak(group, now)

    def why(self, receiver: str, one: Episode, now: int) -> str:
        if one.severity == "warning" and any(
            other.severity == "critical" and other.node == one.node
            for other in self.firing.values()
        ):
            return "inhibited"
        if receiver == "network" and (hour_of(now) >= 22 or hour_of(now) < 6):
            return "muted"
        if any(each.name == one.name and each.starts <= now < each.ends for each in self.silences):
            return "silenced"
        return ""

    def speak(self, group: tuple[str, str], now: int) -> None:
        counts, alerts = self.counts[group[0]], self.alerts[group]
        heard = {}
        for key, (one, over) in alerts.items():
            reason = self.why(group[0], one, now)
            if reason:
                counts.kept_back[reason].add((key, one.fires))
            else:
                heard[key] = over
        firing = {key for key, over in heard.items() if not over}
        ends = {key for key, over in heard.items() if over} & self.told[group]
        # What was said long ago is forgotten after two repeat intervals, and told as if anew.
        age = now - self.sent[group] if group in self.sent else None
        forgotten = age is None or age >= 2 * REPEAT
        fresh = bool(firing) if forgotten else bool(firing - self.said[group])
        late = not forgotten and age is not None and age > REPEAT and bool(firing)
        if fresh or late or ends:
            self.messages.append((now, group[0], sorted(firing), sorted(ends)))
            self.count(counts, now, repeat=late and not fresh and not ends, over=not firing)
            self.told[group] = (self.told[group] | firing) - ends
            self.said[group], self.sent[group] = firing, now
        for key, (_, over) in list(alerts.items()):
            if over and key not in self.told[group]:
                del alerts[key]
                self.emptied[group] = now

    def count(self, counts: Counts, now: int, *, repeat: bool, over: bool) -> None:
        counts.messages += 1
        counts.at_night += hour_of(now) >= 22 or hour_of(now) < 7
        counts.repeats += repeat
        counts.resolved += over
        counts.hours[now // 3600 * 3600] += 1
