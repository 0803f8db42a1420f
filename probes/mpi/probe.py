"""`mpi_calls_total`, `comm_wait_ratio` and friends of MPI jobs.

Source: uprobes at entries and exits of the blocking calls of every libmpi that a process maps.
See README.md.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Count, Gone, Level, ProbeStatus, Produced, Watched
from probes.bpf.errors import UnavailableError
from probes.clock.wall import unix_ms
from probes.functions.followed import Followed
from probes.mpi import readings
from probes.mpi.functions import BLOCKING, INIT, LIBRARY, SLOTS, functions
from probes.mpi.settings import MpiSettings
from probes.mpi.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Process, Reading
    from probes.functions.totals import Look

SOURCE = Path(__file__).with_name("program.bpf.c")
RING_PAGES = 8


class MpiProbe:
    """See the module. One thread uses it."""

    name = "mpi"
    Config: ClassVar[type[MpiSettings]] = MpiSettings

    def __init__(self) -> None:
        self._followed: Followed | None = None
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every libmpi that is mapped now."""
        self._emit = emit
        known = {k: v for k, v in options.settings.items() if k in MpiSettings.model_fields}
        self._settings = MpiSettings.model_validate(known)
        self._waits = Waits()
        self._told: Counter[Process | None] = Counter()
        wanted = functions(self._settings.without)
        try:
            followed = Followed(
                self.name, SOURCE, wanted, SLOTS, {}, self._settings.budget,
                max_files=self._settings.files_limit,
            )  # fmt: skip
            self._troubles = followed.bpf.events("troubles", RING_PAGES)
        except UnavailableError as error:
            self._off = error.status(self.name)
            return self._off
        followed.totals.set_threshold(INIT, self._settings.slow_init.seconds)
        self._followed = followed
        self.poll()
        return self.status()

    def poll(self) -> None:
        """Follow libraries and hand on events."""
        if self._followed is None:
            return
        self._bury(self._followed, self._followed.poll(self._join))
        self._drain(self._followed)

    def produced(self) -> Produced:
        """The kernel's counters."""
        return Produced(self.name) if self._followed is None else self._followed.produced()

    def collect(self) -> None:
        """Emit what every process did since the last call."""
        followed = self._followed
        if followed is None:
            return
        self._drain(followed)
        look, gone = followed.collect(self._join)
        self._count(look)
        self._bury(followed, gone)
        self._tell_waits(followed, look)
        for level in followed.budget_levels("mpi_calls", _labels):
            self._emit(level)
        self._told.clear()

    def status(self) -> ProbeStatus:
        """The present state."""
        return self._off if self._followed is None else self._followed.status()

    def stop(self) -> None:
        """Detach."""
        if self._followed is not None:
            self._followed.close()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._followed = None

    def _join(self, process: Process) -> None:
        self._waits.join(process, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self._emit(Watched(process, readings.COUNTERS, LIBRARY))

    def _bury(self, followed: Followed, gone: list[Process]) -> None:
        if not gone:
            return
        followed.leave(gone)
        self._drain(followed)
        look = followed.last_words()
        self._count(look)
        for process in gone:
            waited, length = self._waits.settle(process, {}, look.now)
            for reading in readings.waits(process, waited, length, told=False):
                self._emit(reading)
            self._waits.leave(process)
            self._emit(Gone(process))

    def _count(self, look: Look) -> None:
        for calls in look.calls:
            self._emit(readings.counts(calls))
            if calls.process is None:
                continue
            seconds = calls.total.sum / readings.NANOSECONDS
            if calls.name == INIT:
                self._emit(Count("mpi_init_seconds_total", calls.process, seconds))
            elif calls.name in BLOCKING:
                self._waits.add(calls.process, calls.name, calls.total.sum)

    def _tell_waits(self, followed: Followed, look: Look) -> None:
        """Look's open calls belong to the same moment as its totals."""
        open_ns: defaultdict[Process, Counter[str]] = defaultdict(Counter)
        for call in look.open:
            if call.process is None:
                continue
            age = max(0, look.now - call.since)
            if call.name == INIT:
                level = age / readings.NANOSECONDS
                self._emit(Level("mpi_init_open_seconds", call.process, level))
            else:
                open_ns[call.process][call.name] += age
        for process in followed.watch.processes:
            waited, length = self._waits.settle(process, open_ns[process], look.now)
            timed = followed.timed(followed.watch.files(process), BLOCKING)
            for reading in readings.waits(process, waited, length, told=timed):
                self._emit(reading)

    def _drain(self, followed: Followed) -> None:
        for record in self._troubles.drain():
            trouble = readings.Trouble.decode(record)
            owner = followed.totals.owners.at(trouble.pid, trouble.time_ns)
            self._told[owner] += 1
            event = trouble.event(owner, unix_ms(trouble.time_ns))
            if self._told[owner] <= self._settings.events:
                self._emit(event)
            else:
                self._emit(Count("mpi_errors_total", owner, 0.0, weight=1, stream="events"))
        for slow in followed.slow():
            self._emit(readings.slow_event(slow))


def _labels(slot: str) -> tuple[tuple[str, str], ...]:
    return (("op", slot),)


def _nowhere(_: Reading) -> None:
    pass
