"""What Gloo's calls mean: waits in flight, connects, failures, and who has which rank."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.readings import Watched
from probes.clock.wall import unix_ms
from probes.functions.reporting import Report
from probes.gloo import readings
from probes.gloo.functions import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.readings import Event, Level, Pairs, Process, Reading
    from probes.functions.followed import Followed
    from probes.functions.totals import Look, SlowCall

RING_PAGES = 4


class GlooReport(Report):
    """See the module. Raises UnavailableError."""

    metric = "gloo_waits"

    def __init__(self, followed: Followed) -> None:
        self._owners = followed.totals.owners
        self._groups = followed.bpf.events("groups", RING_PAGES)

    def labels(self, slot: str) -> Pairs:
        """The operation."""
        return (("op", readings.OPERATIONS[slot]),)

    def watched(self, process: Process) -> Watched:
        """In either library the counters are the same."""
        return Watched(process, readings.COUNTERS, LIBRARIES[0])

    def counts(self, look: Look) -> Iterator[Reading]:
        """Calls, their time, and those that an exception left."""
        now_ms = time.time_ns() // 1_000_000
        for calls in look.calls:
            yield from readings.counts(calls, now_ms)

    def slow(self, call: SlowCall) -> Event:
        """A connect."""
        return readings.slow_event(call)

    def records(self) -> Iterator[Reading]:
        """Groups that processes joined."""
        for record in self._groups.drain():
            group = readings.Group.decode(record)
            owner = self._owners.at(group.pid, group.time_ns)
            yield from group.readings(owner, unix_ms(group.time_ns))

    def levels(self, look: Look) -> Iterator[Level]:
        """Connects that have not ended."""
        return readings.open_levels(look.open, look.now)
