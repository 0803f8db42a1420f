"""A simulated week: the counts of a forecast against those of a slow, written-out week."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from engine.alerts.alert import Alert, AlertState
from engine.alerts.matchers import parse_matchers
from engine.config.loader import load_config
from engine.labels import Labels
from notifiers.forecast.counts import forecast
from notifiers.forecast.night import Night
from notifiers.silences.silence import Silence
from notifiers.simulation import Setup
from tests.notifiers.forecast.slow_week import CONFIG, Counts, Episode, Quiet, SlowWeek

if TYPE_CHECKING:
    from pathlib import Path

    from engine.config.model import Config
    from notifiers.forecast.counts import ReceiverCounts
    from tests.notifiers.forecast.slow_week import Key

# Monday, 2026-11-02 00:00 UTC.
MONDAY = 1_793_577_600
DAY = 86_400
NIGHT = Night.read("22-7", "UTC")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path: Path = tmp_path_factory.mktemp("week") / "stallwatch.yaml"
    path.write_text(CONFIG)
    return load_config(path)


def alert_of(one: Episode, end: int) -> Alert:
    labels = {"alertname": one.name, "node": one.node, "severity": one.severity, "team": one.team}
    over = one.over <= end
    return Alert(
        labels=Labels(labels),
        annotations={},
        state=AlertState.RESOLVED if over else AlertState.FIRING,
        value=1.0,
        active_at_ms=one.fires * 1000,
        fired_at_ms=one.fires * 1000,
        resolved_at_ms=one.over * 1000 if over else None,
    )


def silence_of(one: Quiet) -> Silence:
    matchers = parse_matchers(f'alertname="{one.name}"')
    return Silence("", matchers, one.starts * 1000, one.ends * 1000)


def counted(config: Config, episodes: list[Episode], silences: list[Quiet]) -> dict[str, Counts]:
    end = MONDAY + 7 * DAY
    alerts = [alert_of(one, end) for one in episodes]
    quiet = [silence_of(one) for one in silences]
    found = forecast(Setup.of(config), alerts, MONDAY * 1000, end * 1000, NIGHT, quiet)
    return {name: as_slow(own) for name, own in found.receivers.items()}


def key_of(labels: Labels) -> Key:
    get = labels.get
    return get("alertname"), get("node"), get("severity"), get("team")


def as_slow(own: ReceiverCounts) -> Counts:
    every = own.all
    counts = Counts(every.messages, every.at_night, every.repeats, every.resolved)
    counts.hours.update({hour // 1000: number for hour, number in every.hours.items()})
    for name, alerts in own.kept_back.items():
        if alerts:
            counts.kept_back[name] = {(key_of(labels), at // 1000) for labels, at in alerts}
    return counts


def at(day: int, hour: float) -> int:
    return MONDAY + day * DAY + round(hour * 3600)


def test_oncall_would_have_had_14_messages_3_of_them_at_night(config: Config) -> None:
    episodes = [
        # Each working day one alert for an hour: told, and its end. Ten messages.
        *(Episode("Stall", "n1", "none", "ml", at(day, 10), at(day, 11)) for day in range(5)),
        # On Saturday from 04:00 to 06:30, both told before seven.
        Episode("Stall", "n2", "none", "ml", at(5, 4), at(5, 6.5)),
        # On Sunday from 18:30 on: told, and again at 22:35:30, the first tick after four hours.
        Episode("Crash", "n3", "none", "ml", at(6, 18.5), at(8, 0)),
    ]
    counts = counted(config, episodes, [])["oncall"]
    assert (counts.messages, counts.at_night, counts.repeats, counts.resolved) == (14, 3, 1, 6)


SEEDS = range(12)


@cache
def drawn(seed: int) -> tuple[list[Episode], list[Quiet]]:
    """Alerts that come and go, of each no two at once, some past the week's end; and silences."""
    chance = random.Random(seed)
    found = []
    for name in "ABC":
        for node in ("n1", "n2"):
            team, now = chance.choice(["net", "ml"]), at(0, 0)
            severity = chance.choice(["critical", "warning", "none"])
            while now < at(7, 0):
                fires = now + 30 * chance.randint(1, 4000)
                now = fires + 30 * chance.choice([1, 7, 40, 700, 3000])
                if fires < at(7, 0):
                    found.append(Episode(name, node, severity, team, fires, now))
    starts = [(chance.choice("ABC"), at(0, chance.uniform(0, 150))) for _ in range(3)]
    return found, [Quiet(name, start, start + 36_000) for name, start in starts]


@cache
def slow_week(seed: int) -> dict[str, Counts]:
    return SlowWeek(*drawn(seed)).run(MONDAY, MONDAY + 7 * DAY)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_week_counts_as_a_slow_one_does(config: Config, seed: int) -> None:
    fast = counted(config, *drawn(seed))
    assert fast == slow_week(seed)
    assert sum(counts.messages for counts in fast.values()) > 20


def test_the_drawn_weeks_have_some_of_all_that_is_counted() -> None:
    seen: Counter[str] = Counter()
    for counts in (counts for seed in SEEDS for counts in slow_week(seed).values()):
        seen.update({name: getattr(counts, name) for name in ("at_night", "repeats", "resolved")})
        seen.update({name: len(alerts) for name, alerts in counts.kept_back.items()})
    names = {"at_night", "repeats", "resolved", "inhibited", "muted", "silenced"}
    assert {name for name in names if seen[name] > 5} == names
