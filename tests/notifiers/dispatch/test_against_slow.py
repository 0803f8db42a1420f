from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from engine.alerts.fingerprint import fingerprint
from notifiers.simulation import simulate
from tests.notifiers.dispatch.timeline import START, alert, dispatcher, route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from notifiers.routing.tree import Route


class Slow:
    """The same, second by second, with nothing remembered that could be looked up again."""

    def __init__(self, root: Route) -> None:
        self.root = root
        self.due: dict[str, int] = {}
        self.emptied: dict[str, int] = {}
        self.alerts: dict[str, dict[str, Alert]] = defaultdict(dict)
        self.told: dict[str, set[str]] = defaultdict(set)
        self.said: dict[str, set[str]] = defaultdict(set)
        self.sent: dict[str, int] = {}
        self.found: list[str] = []

    def run(self, timeline: Sequence[tuple[int, list[Alert]]], end_ms: int) -> list[str]:
        for now_ms in range(START, end_ms + 1, 1000):
            self.flush(now_ms)
            for one in (one for time_ms, some in timeline for one in some if time_ms == now_ms):
                self.take(one, now_ms)
            self.flush(now_ms)
        return self.found

    def take(self, one: Alert, now_ms: int) -> None:
        name, key = one.labels.get("alertname"), fingerprint(one.labels)
        if name not in self.due:
            if one.resolved_at_ms is not None and key not in self.told[name]:
                return
            self.due[name] = now_ms + self.root.group_wait_ms
        self.alerts[name][key] = one

    def flush(self, now_ms: int) -> None:
        for name in [name for name, due_ms in self.due.items() if due_ms <= now_ms]:
            if not self.alerts[name] and now_ms - self.emptied[name] >= 30_000:
                del self.due[name]
                continue
            self.due[name] = now_ms + self.root.group_interval_ms
            self.speak(name, now_ms)

    def speak(self, name: str, now_ms: int) -> None:
        alerts = self.alerts[name]
        firing = {key for key, one in alerts.items() if one.resolved_at_ms is None}
        over = alerts.keys() - firing
        end = over & self.told[name]
        late = name in self.sent and self.sent[name] < now_ms - self.root.repeat_interval_ms
        if firing - self.said[name] or end or (firing and late):
            self.found.append(f"{now_ms} {sorted(firing)} {sorted(end)}")
            self.told[name] = (self.told[name] | firing) - end
            self.said[name], self.sent[name] = firing, now_ms
        for key in over:
            del alerts[key]
            self.emptied[name] = now_ms


@pytest.mark.parametrize("seed", range(40))
def test_messages_are_those_of_a_slow_dispatcher(seed: int) -> None:
    chance = random.Random(seed)
    root = route(
        wait=chance.choice([0, 1, 7]),
        interval=chance.choice([5, 13, 60]),
        repeat=chance.choice([20, 100, 500]),
    )
    state: dict[str, float] = {}
    timeline = []
    for second in sorted(chance.choices(range(600), k=60)):
        name = f"{chance.choice('AB')}/{chance.choice('123')}"
        over = name in state
        fired = state.pop(name) if over else second
        if not over:
            state[name] = second
        timeline.append((START + second * 1000, [alert(name, second, over=over, fired=fired)]))
    fast = []
    for sent in simulate(dispatcher(root), timeline, START + 1_500_000):
        firing = [fingerprint(a.labels) for a in sent.message.alerts if a.resolved_at_ms is None]
        over_ = [fingerprint(a.labels) for a in sent.message.alerts if a.resolved_at_ms is not None]
        fast.append(f"{sent.time_ms} {sorted(firing)} {sorted(over_)}")
    assert sorted(fast) == sorted(Slow(root).run(timeline, START + 1_500_000))
    assert fast
