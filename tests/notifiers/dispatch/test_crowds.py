"""Many alerts: what is kept of them is bounded by those that fire, and order holds."""

from __future__ import annotations

import gc
import heapq
import random
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from engine.alerts.fingerprint import REMEMBERED, fingerprint
from engine.state.connection import StateConnection
from engine.state.file import StateFile
from notifiers.dispatch import tables
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.loop import DispatchLoop
from notifiers.outbox import Outbox
from notifiers.simulation import simulate
from tests.notifiers.dispatch.timeline import START, alert, dispatcher, labels_of, route

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from engine.alerts.alert import Alert
    from notifiers.dispatch.dispatcher import Dispatcher
    from notifiers.dispatch.group import Timer
    from notifiers.dispatch.message import Message
    from notifiers.entry import Entry

ALERTS, HOUR_MS = 10_000, 3_600_000
NAMES = 50
LONGEST_SECONDS = 600
# Over a disk, which is asked to keep each message, there are fewer of them.
INTERVAL_SECONDS, SLOW_INTERVAL_SECONDS = 60, 300
# Of an alert that fires, or whose end somebody is still owed: the alert itself, its places in the
# group, the log and the inhibitor, and a share of the message that tells of it.
BYTES_EACH = 4_000


def crowd(seed: int = 7) -> Iterator[tuple[int, list[Alert]]]:
    """10,000 alerts fire in an hour, each ends within ten minutes; each is made when it comes."""
    chance = random.Random(seed)
    begins = sorted(chance.uniform(0, 3600) for _ in range(ALERTS))
    ends: list[tuple[float, str, float]] = []
    for number, at in enumerate(begins):
        while ends and ends[0][0] <= at:
            yield end_of(*heapq.heappop(ends))
        name = f"A{chance.randrange(NAMES)}/n{number}"
        heapq.heappush(ends, (at + chance.uniform(5, LONGEST_SECONDS), name, at))
        yield START + round(at * 1000), [alert(name, at)]
    while ends:
        yield end_of(*heapq.heappop(ends))


def end_of(at: float, name: str, fired: float) -> tuple[int, list[Alert]]:
    return START + round(at * 1000), [alert(name, at, over=True, fired=fired)]


@dataclass
class Watched:
    """A crowd, and what it takes: `most` that fire at once, peaks of memory in its two halves."""

    baseline: int = 0
    alive: int = 0
    most: int = 0
    peaks: list[int] = field(default_factory=list)

    def events(self) -> Iterator[tuple[int, list[Alert]]]:
        self.baseline = tracemalloc.get_traced_memory()[0]
        for at_ms, alerts in crowd():
            if at_ms >= START + HOUR_MS / 2 and not self.peaks:
                self.note_peak()
            self.alive += 1 if alerts[0].resolved_at_ms is None else -1
            self.most = max(self.most, self.alive)
            yield at_ms, alerts
        self.note_peak()

    def note_peak(self) -> None:
        self.peaks.append(tracemalloc.get_traced_memory()[1] - self.baseline)
        tracemalloc.reset_peak()


class Reader:
    """Hears every message, and holds each alert to its order: it fires, it ends, and no more."""

    def __init__(self) -> None:
        self.firing: set[str] = set()
        self.ended = 0
        self.messages: Counter[str] = Counter()

    def hear(self, message: Message | Entry) -> None:
        self.messages[message.group_key] += 1
        for one in message.alerts:
            identity = fingerprint(one.labels)
            if one.resolved_at_ms is None:
                self.firing.add(identity)
            else:
                # Raises KeyError for an end of what was never told, or was told before.
                self.firing.remove(identity)
                self.ended += 1


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    # The cache of fingerprints is as full as it can be, before and after.
    for number in range(REMEMBERED):
        fingerprint(labels_of(f"B{number % NAMES}/n{number}"))
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced")
def test_ten_thousand_alerts_in_an_hour_take_the_memory_of_those_that_fire() -> None:
    log, reader, watched = NotificationLog(), Reader(), Watched()
    own = dispatcher(route(interval=INTERVAL_SECONDS), log=log)
    for sent in simulate(own, watched.events(), START + 2 * HOUR_MS):
        reader.hear(sent.message)
    assert (reader.firing, log.owed(), list(own.groups())) == (set(), set(), [])
    # What fires and ends between two ticks is nobody's business; most of it is told.
    assert 0.9 * ALERTS < reader.ended < ALERTS
    # One message a tick and group, from the first alert until the last one's end.
    ticks = (3600 + LONGEST_SECONDS) // INTERVAL_SECONDS + 2
    assert len(reader.messages) == NAMES
    assert max(reader.messages.values()) <= ticks
    first, second = watched.peaks
    assert max(first, second) < watched.most * BYTES_EACH
    assert second < 1.2 * first
    gc.collect()
    # What stays are tables that were once that large, and are empty.
    assert tracemalloc.get_traced_memory()[0] - watched.baseline < 0.4 * max(first, second)


class Node:
    """A dispatcher's thread and a worker over a real state.db, by a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        self.now_ms = START
        self.outbox = Outbox(str(path))
        self.outbox.create()
        self.database = StateConnection(StateFile(str(path)))
        self.connection = self.database.now()
        tables.create_tables(self.connection)
        root = route(interval=SLOW_INTERVAL_SECONDS)

        def opened(log: NotificationLog, timers: Mapping[str, Timer]) -> Dispatcher:
            return dispatcher(root, log=log, timers=timers)

        self.loop = DispatchLoop(str(path), opened, lambda: None, lambda: self.now_ms)

    def evaluate(self, now_ms: int, alerts: Sequence[Alert]) -> Iterator[Entry]:
        """One evaluation and turn; what the worker of an integration then takes, one by one."""
        self.now_ms = now_ms
        tables.put_alerts(self.connection, alerts)
        self.loop.step(self.database)
        while (entry := self.outbox.due("ops", now_ms)) is not None:
            self.outbox.attempt(entry)
            self.outbox.delivered(entry, now_ms)
            yield entry

    def rows(self, table: str) -> int:
        (count,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)


def test_state_db_keeps_no_more_than_what_fires_or_is_owed(tmp_path: Path) -> None:
    node, reader = Node(tmp_path / "state.db"), Reader()
    waiting: list[Alert] = []
    alive: set[str] = set()
    most, due_ms = 0, START
    for at_ms, (one,) in [*crowd(), (START + 2 * HOUR_MS, [alert("Z/last", 7200)])]:
        while due_ms < at_ms:
            # Every ten seconds, with all that fired or ended since.
            for entry in node.evaluate(due_ms, waiting):
                reader.hear(entry)
            waiting, due_ms = [], due_ms + 10_000
            most = max(most, node.rows("notify_alert") - len(alive))
        identity = fingerprint(one.labels)
        (alive.add if one.resolved_at_ms is None else alive.remove)(identity)
        waiting.append(one)
    assert reader.firing == set()
    assert 0.5 * ALERTS < reader.ended < ALERTS
    # Beside what fires, ends that wait for their group's next tick: those of one interval.
    assert most < ALERTS * SLOW_INTERVAL_SECONDS / 3600 * 1.5
    assert (node.rows("notify_alert"), node.rows("notify_group")) == (0, 0)
    assert node.rows("notify_log") <= NAMES
