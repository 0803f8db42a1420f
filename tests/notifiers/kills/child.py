"""Processes to kill: a delivery over a real state.db, and alerts that fire and end all the time.

    echo "STATE SEED RECEIVER=URL..." | python -m tests.notifiers.kills.child

Each line begins a life; SIGTERM ends all its alerts, and it ends when everybody has been told. What
was committed is in the table `played`, written in the transaction of each alert.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.alerts.alert import Alert, AlertState
from engine.alerts.fingerprint import fingerprint
from engine.config.model import Config, IntegrationConfig, ReceiverConfig
from engine.labels import Labels
from engine.state.database import StateDb
from notifiers.backoff import Backoff
from notifiers.delivery import OutboxDelivery
from notifiers.integrations import integrations
from notifiers.outbox import connect
from notifiers.routing.plan import Plan
from notifiers.routing.tree import Route
from notifiers.worker import SendOptions, unix_ms

if TYPE_CHECKING:
    import sqlite3

ALERTS = 24
LEDGER = "CREATE TABLE IF NOT EXISTS played (fingerprint TEXT, status TEXT, at_ms INTEGER)"


def labels(number: int) -> Labels:
    """Patient alerts change only when everybody has heard of them, hasty ones at any time."""
    kind = "Patient" if number % 2 else "Hasty"
    return Labels({"alertname": f"{kind}{number % 4}", "task_id": f"job{number}"})


def plan(receivers: list[str]) -> Plan:
    """The first receiver hears of each alert alone, the others of groups."""
    routes = tuple(
        Route(
            receiver=name,
            group_by=None if place == 0 else frozenset({"alertname"}),
            group_wait_ms=0 if place == 0 else 30,
            group_interval_ms=60 * (1 + place),
            repeat_interval_ms=3_600_000,
            continue_=True,
            key=f"{{}}/{{{name}}}",
            id=f"{{}}/{{{name}}}/{place}",
        )
        for place, name in enumerate(receivers)
    )
    return Plan(Route(receiver=receivers[0], routes=routes))


def delivery(path: str, urls: dict[str, str]) -> OutboxDelivery:
    """One webhook a receiver; quick to try again."""
    config = Config(
        receivers=tuple(
            ReceiverConfig(
                name=name, integrations=(IntegrationConfig(kind="webhook", settings={"url": url}),)
            )
            for name, url in urls.items()
        )
    )
    options = SendOptions(Backoff(base_seconds=0.01, cap_seconds=0.05))
    return OutboxDelivery(integrations(config), plan(list(urls)), path, options)


@dataclass
class Player:
    """Fires and resolves alerts, each in a transaction."""

    state: StateDb
    out: OutboxDelivery
    receivers: int
    draw: random.Random
    firing: dict[int, Alert] = field(default_factory=dict)

    def resume(self) -> None:
        """What an earlier process committed as firing."""
        with self.state.transaction() as connection:
            connection.execute(LEDGER)
            rows = connection.execute("SELECT fingerprint, status, at_ms FROM played").fetchall()
        newest = {own: (status, at_ms) for own, status, at_ms in rows}
        for number in range(ALERTS):
            status, at_ms = newest.get(fingerprint(labels(number)), ("", 0))
            if status == "firing":
                self.firing[number] = self.alert(number, at_ms)

    def alert(self, number: int, at_ms: int) -> Alert:
        return Alert(labels(number), {}, AlertState.FIRING, 1.0, at_ms, at_ms)

    def turn(self) -> None:
        """Change one alert, if it may."""
        number = self.draw.randrange(ALERTS)
        if number % 2 and self.told(number) != (self.receivers if number in self.firing else 0):
            return
        self.change([number])

    def change(self, numbers: list[int]) -> None:
        """Commit them in their other state."""
        time.sleep(0.002)  # no two have the same time
        now_ms, alerts = unix_ms(), []
        for number in numbers:
            if number in self.firing:
                before = self.firing.pop(number)
                alerts.append(replace(before, state=AlertState.RESOLVED, resolved_at_ms=now_ms))
            else:
                self.firing[number] = self.alert(number, now_ms)
                alerts.append(self.firing[number])
        with self.state.transaction() as connection:
            self.out.enqueue(connection, alerts)
            connection.executemany(
                "INSERT INTO played VALUES (?, ?, ?)",
                [(fingerprint(one.labels), one.state.value, now_ms) for one in alerts],
            )
        self.out.wake()

    def told(self, number: int) -> int:
        """How many integrations know that it fires."""
        pattern = f"%{fingerprint(labels(number))}%"
        with self.state.transaction() as connection:
            return int(
                connection.execute(
                    "SELECT count(*) FROM notify_log WHERE told LIKE ?", (pattern,)
                ).fetchone()[0]
            )

    def finish(self) -> None:
        """End all, patient ones when they are heard of; wait until nobody is owed anything."""
        while any(n % 2 and self.told(n) != self.receivers for n in self.firing):
            time.sleep(0.05)
        if self.firing:
            self.change(list(self.firing))
        connection = connect(self.state.path)
        while not is_done(connection):
            time.sleep(0.05)


def is_done(connection: sqlite3.Connection) -> bool:
    owed = (
        "SELECT (SELECT count(*) FROM notify_alert)"
        " + (SELECT count(*) FROM notify_message WHERE state = 'pending')"
    )
    return bool(connection.execute(owed).fetchone()[0] == 0)


def live(path: str, seed: str, *receivers: str) -> None:
    """One life: until it is killed, or told by SIGTERM that it is the last."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    urls = dict(each.split("=", 1) for each in receivers)
    state = StateDb.open(path)
    out = delivery(state.path, urls)
    player = Player(state, out, len(urls), random.Random(int(seed)))
    player.resume()
    out.start()
    say("ready")
    while not asked.is_set():
        player.turn()
    player.finish()
    out.stop(10)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """A life for each line on stdin, in a fork: what is imported need not be imported again."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            live(*line.split())
            os._exit(0)
        say(f"born {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"died {status}")


if __name__ == "__main__":
    main()
