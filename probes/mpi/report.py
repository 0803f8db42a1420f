"""What MPI's calls mean: how often, how long the process waited in them, and what went wrong."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from engine.readings import Count, Level, Watched
from probes.clock.wall import unix_ms
from probes.functions.reporting import Report
from probes.mpi import readings
from probes.mpi.functions import BLOCKING, INIT, LIBRARY
from probes.mpi.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Event, Pairs, Process, Reading
    from probes.functions.followed import Followed
    from probes.functions.totals import Look, SlowCall

RING_PAGES = 8


class MpiReport(Report):
    """`events_limit`: errors of one process told between two flushes. Raises UnavailableError."""

    metric = "mpi_calls"

    def __init__(self, followed: Followed, *, events_limit: int) -> None:
        self._followed = followed
        self._troubles = followed.bpf.events("troubles", RING_PAGES)
        self._events_limit = events_limit
        self._waits = Waits()
        self._told: Counter[Process | None] = Counter()

    def labels(self, slot: str) -> Pairs:
        """The operation."""
        return (("op", slot),)

    def watched(self, process: Process) -> Watched:
        """From now on its waits are a share of the time."""
        self._waits.join(process, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        return Watched(process, readings.COUNTERS, LIBRARY)

    def counts(self, look: Look) -> Iterator[Reading]:
        """Calls; what they took is kept for `levels` and `ended`."""
        for calls in look.calls:
            yield readings.counts(calls)
            if calls.process is None:
                continue
            if calls.name == INIT:
                seconds = calls.total.sum / readings.NANOSECONDS
                yield Count("mpi_init_seconds_total", calls.process, seconds)
            elif calls.name in BLOCKING:
                self._waits.add(calls.process, calls.name, calls.total.sum)

    def slow(self, call: SlowCall) -> Event:
        """An initialisation."""
        return readings.slow_event(call)

    def records(self) -> Iterator[Reading]:
        """Errors and aborts; those above the limit are counted only."""
        for record in self._troubles.drain():
            trouble = readings.Trouble.decode(record)
            owner = self._followed.totals.owners.at(trouble.pid, trouble.time_ns)
            self._told[owner] += 1
            if self._told[owner] <= self._events_limit:
                yield trouble.event(owner, unix_ms(trouble.time_ns))
            else:
                yield Count("mpi_errors_total", owner, 0.0, weight=1, stream="events")

    def ended(self, process: Process, look: Look) -> Iterator[Reading]:
        """Its last waits."""
        waited, length = self._waits.settle(process, {}, look.now)
        yield from readings.waits(process, waited, length, told=False)
        self._waits.leave(process)

    def levels(self, look: Look) -> Iterator[Reading]:
        """Waits of the interval. The look's open calls are of the same moment as its totals."""
        self._told.clear()
        open_ns: defaultdict[Process, Counter[str]] = defaultdict(Counter)
        for call in look.open:
            if call.process is None:
                continue
            age = max(0, look.now - call.since)
            if call.name == INIT:
                level = age / readings.NANOSECONDS
                yield Level("mpi_init_open_seconds", call.process, level)
            else:
                open_ns[call.process][call.name] += age
        for process in self._followed.watch.processes:
            waited, length = self._waits.settle(process, open_ns[process], look.now)
            timed = self._followed.timed(self._followed.watch.files(process), BLOCKING)
            yield from readings.waits(process, waited, length, told=timed)
