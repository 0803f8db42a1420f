"""kill -9 at random instants, under load: nothing is lost, and what is said twice says so.

The long form, as `make kills` runs it: STALLWATCH_KILLS=200, and pytest -s --timeout 1800.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from engine.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KILLS = int(os.environ.get("STALLWATCH_KILLS", "12"))
RECEIVERS = ("alone", "groups", "slow_groups")


@dataclass(frozen=True)
class Arrival:
    """A message as it came in. `life`: which process sent it, counted from 0."""

    receiver: str
    life: int
    id: str
    is_marked: bool
    body: dict[str, Any]


@dataclass
class Town:
    """The receivers: each notes what comes in, and then takes a moment to answer."""

    life: int = 0
    arrivals: list[Arrival] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    urls: dict[str, str] = field(default_factory=dict)

    def note(self, receiver: str, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["Content-Length"])
        body = request.rfile.read(length)
        if len(body) < length:
            return  # it was killed while it spoke
        with self.lock:
            marked = "X-Stallwatch-Repeat" in request.headers
            own = request.headers["Idempotency-Key"]
            self.arrivals.append(Arrival(receiver, self.life, own, marked, json.loads(body)))
        time.sleep(random.uniform(0, 0.01))
        request.send_response(200)
        request.send_header("Content-Length", "0")
        request.end_headers()


@pytest.fixture
def town() -> Iterator[Town]:
    town, servers = Town(), []
    for receiver in RECEIVERS:

        class Handler(BaseHTTPRequestHandler):
            own = receiver

            def do_POST(self) -> None:
                town.note(self.own, self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        town.urls[receiver] = f"http://127.0.0.1:{server.server_address[1]}/"
        servers.append(server)
    yield town
    for server in servers:
        server.shutdown()
        server.server_close()


class Lives:
    """A process that gives birth to one delivery after another."""

    def __init__(self, path: Path, town: Town) -> None:
        self.path = path
        self.town = town
        command = [sys.executable, "-m", "tests.notifiers.kills.child"]
        self.mother = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = 0

    def heard(self, word: str) -> str:
        """The next line that begins with a word, less that; others are passed over."""
        assert self.mother.stdout is not None
        for line in self.mother.stdout:
            first, _, rest = line.strip().partition(" ")
            if first == word:
                return rest
        raise AssertionError(f"it never said {word}")

    def begin(self, life: int) -> None:
        assert self.mother.stdin is not None
        self.town.life = life
        urls = " ".join(f"{name}={url}" for name, url in self.town.urls.items())
        self.mother.stdin.write(f"{self.path} {life} {urls}\n")
        self.mother.stdin.flush()
        self.pid = int(self.heard("born"))

    def end(self, number: signal.Signals) -> int:
        os.kill(self.pid, number)
        return int(self.heard("died"))


@pytest.fixture
def lives(tmp_path: Path, town: Town) -> Iterator[Lives]:
    lives = Lives(tmp_path / "state.db", town)
    yield lives
    with lives.mother as mother:
        mother.kill()


def kill_some(lives: Lives, draw: random.Random) -> None:
    """Most die under load, some while they start."""
    for life in range(KILLS):
        lives.begin(life)
        if draw.random() < 0.85:
            lives.heard("ready")
            time.sleep(draw.uniform(0.0, 1.0))
        else:
            time.sleep(draw.uniform(0.0, 0.2))
        assert lives.end(signal.SIGKILL) == signal.SIGKILL
        time.sleep(0.05)  # what it has sent is in


def end(lives: Lives) -> None:
    lives.begin(KILLS)
    lives.heard("ready")
    assert lives.end(signal.SIGTERM) == 0


Told = tuple[str, str, int]
"""(fingerprint, status, startsAt)."""


def told(arrival: Arrival) -> list[Told]:
    return [
        (one["fingerprint"], one["status"], parse_timestamp(one["startsAt"]))
        for one in arrival.body["alerts"]
    ]


def firsts(arrivals: list[Arrival]) -> list[Arrival]:
    return list({each.id: each for each in reversed(arrivals)}.values())[::-1]


def repeats(arrivals: list[Arrival]) -> list[Arrival]:
    seen: set[str] = set()
    found = []
    for each in arrivals:
        if each.id in seen:
            found.append(each)
        seen.add(each.id)
    return found


def ledger(path: Path) -> dict[str, list[tuple[str, int]]]:
    """(status, time) that were committed, by fingerprint."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    with sqlite3.connect(path) as connection:
        for own, status, at_ms in connection.execute("SELECT * FROM played ORDER BY rowid"):
            found[own].append((status, at_ms))
    return found


def owed(path: Path) -> list[Told]:
    """What a receiver must have heard: all of the patient alerts, and that hasty ones ended."""
    found = []
    for own, changes in ledger(path).items():
        began = 0
        for status, at_ms in changes:
            began = at_ms if status == "firing" else began
            found.append((own, status, began))
    return found


def check_order(arrivals: list[Arrival]) -> None:
    """Never firing after the end of the same firing."""
    over: set[tuple[str, int]] = set()
    for own, status, began in (each for one in arrivals for each in told(one)):
        assert status == "resolved" or (own, began) not in over
        if status == "resolved":
            over.add((own, began))


def test_kills_lose_nothing_and_repeats_say_so(lives: Lives, town: Town) -> None:
    kill_some(lives, random.Random(2026))
    end(lives)
    committed, patient = owed(lives.path), set()
    for receiver in RECEIVERS:
        arrivals = [each for each in town.arrivals if each.receiver == receiver]
        heard = Counter(each for one in firsts(arrivals) for each in told(one))
        names = {one["fingerprint"]: one["labels"] for a in arrivals for one in a.body["alerts"]}
        patient = {each for each in committed if names[each[0]]["alertname"].startswith("Patient")}
        lost = [each for each in patient if not heard[each]]
        assert lost == []
        newest = {own: status for one in firsts(arrivals) for own, status, _ in told(one)}
        assert set(newest.values()) == {"resolved"}
        check_order(arrivals)
        again = repeats(arrivals)
        # What a process sent in its last moment may be noted after the repeat of the next one.
        unmarked = Counter(each.id for each in arrivals if not each.is_marked)
        assert max(unmarked.values()) == 1
        assert len(again) <= KILLS
        bodies = {each.id: each.body for each in arrivals}
        assert all(bodies[each.id] == each.body for each in arrivals)
        print(
            f"{receiver}: {KILLS} kills, {len(committed)} changes committed ({len(patient)} that"
            f" must arrive), {len(firsts(arrivals))} messages, lost {len(lost)},"
            f" doubled {len(again)}, all marked"
        )
    assert patient
