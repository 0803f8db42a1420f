"""`gloo_wait_seconds_total`, `gloo_connects_total`, `gloo_failures_total` and ranks.

Source: uprobes on what Gloo exports in libtorch_cpu.so and libgloo.so. See README.md: a wait here
is communication in flight; the exposed wait is `comm_wait_ratio` of torch_step.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Gone, ProbeStatus, Produced, Watched
from probes.bpf.errors import UnavailableError
from probes.clock.wall import unix_ms
from probes.functions.followed import Followed
from probes.gloo import readings
from probes.gloo.functions import CONNECT, FUNCTIONS, LIBRARIES, SLOTS
from probes.gloo.settings import GlooSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Process, Reading
    from probes.functions.totals import Look

SOURCE = Path(__file__).with_name("program.bpf.c")
RING_PAGES = 4


class GlooProbe:
    """See the module. One thread uses it."""

    name = "gloo"
    Config: ClassVar[type[GlooSettings]] = GlooSettings

    def __init__(self) -> None:
        self._followed: Followed | None = None
        self._emit: Callable[[Reading], None] = _nowhere
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every library with Gloo that is mapped now."""
        self._emit = emit
        known = {k: v for k, v in options.settings.items() if k in GlooSettings.model_fields}
        settings = GlooSettings.model_validate(known)
        try:
            followed = Followed(
                self.name, SOURCE, FUNCTIONS, SLOTS, {}, settings.budget,
                max_files=settings.files_limit,
            )  # fmt: skip
            self._groups = followed.bpf.events("groups", RING_PAGES)
        except UnavailableError as error:
            self._off = error.status(self.name)
            return self._off
        followed.totals.set_threshold(CONNECT, settings.slow_connect.seconds)
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
        self._tell(look)
        self._bury(followed, gone)
        for level in readings.open_levels(look.open, look.now):
            self._emit(level)
        for level in followed.budget_levels("gloo_waits", _labels):
            self._emit(level)

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
        self._emit(Watched(process, readings.COUNTERS, LIBRARIES[0]))

    def _bury(self, followed: Followed, gone: list[Process]) -> None:
        if not gone:
            return
        followed.leave(gone)
        self._drain(followed)
        self._tell(followed.last_words())
        for process in gone:
            self._emit(Gone(process))

    def _tell(self, look: Look) -> None:
        now_ms = time.time_ns() // 1_000_000
        for calls in look.calls:
            for reading in readings.counts(calls, now_ms):
                self._emit(reading)

    def _drain(self, followed: Followed) -> None:
        for record in self._groups.drain():
            group = readings.Group.decode(record)
            owner = followed.totals.owners.at(group.pid, group.time_ns)
            for reading in group.readings(owner, unix_ms(group.time_ns)):
                self._emit(reading)
        for slow in followed.slow():
            self._emit(readings.slow_event(slow))


def _labels(slot: str) -> tuple[tuple[str, str], ...]:
    return (("op", readings.OPERATIONS[slot]),)


def _nowhere(_: Reading) -> None:
    pass
