"""The collector: one thread that polls the probes and cuts their readings into flushes.

A probe that raises is switched off and says so; it never takes the others, or the agent, down.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from typing import TYPE_CHECKING

from engine.aggregate.queue import FlushMark
from engine.doorbell import DOORBELL
from engine.pipeline.stage import ignore_fault, start_stage
from engine.readings import PROBES_READY, Event, ProbeOptions, ProbeStatus, Produced
from rules.errors import StallwatchError
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.aggregate.queue import ReadingQueue
    from engine.doorbell import Doorbell
    from engine.pipeline.stage import OnFault
    from engine.protocols import Probe
    from engine.readings import Reading

LOG = logging.getLogger(__name__)
# 0.5 % of a core for polls that rings ask for.
QUIET = 200
# A clock that was set back by less is waited for: that long there is no flush.
MAX_STEP_BACK_MS = 60_000


class ClockSetBackError(StallwatchError):
    """The clock was set back by more than can be waited for."""


@dataclass(slots=True)
class Collector:
    """Polls `probes` every `poll_seconds` and marks a flush at each multiple of the interval."""

    probes: Sequence[Probe]
    queue: ReadingQueue
    flush_interval_ms: int
    settings: dict[str, dict[str, object]] = field(default_factory=dict)
    poll_seconds: float = 0.5
    doorbell: Doorbell = DOORBELL
    clock: Callable[[], float] = time.time
    on_fault: OnFault = ignore_fault
    missed: int = 0
    statuses: dict[str, ProbeStatus] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _ready: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Attach the probes and begin; returns once each has said how it stands."""
        self._thread = start_stage("collector", self._run, self.on_fault)
        self._ready.wait()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Detach the probes and end the thread."""
        self._stop.set()
        self.doorbell.ring()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            for probe in self.probes:
                self._attach(probe)
            self.queue.put("agent", self._ready_event())
        finally:
            self._ready.set()
        try:
            self._collect()
        finally:
            for probe in self.probes:
                self._guard(probe, probe.stop)

    def _collect(self) -> None:
        following = self._next_flush()
        while not self._stop.is_set():
            began = time.monotonic()
            self._each(lambda probe: probe.poll())
            cost_seconds = time.monotonic() - began
            now_ms = int(self.clock() * 1000)
            if now_ms >= following:
                stamp = now_ms - now_ms % self.flush_interval_ms
                # The machine slept or was starved: times without data stay without data.
                self.missed += (stamp - following) // self.flush_interval_ms
                self.flush(stamp)
                following = stamp + self.flush_interval_ms
            back_ms = following - self.flush_interval_ms - now_ms
            if back_ms > MAX_STEP_BACK_MS:
                raise ClockSetBackError(
                    f"the clock was set back by {back_ms // 1000} s, and samples before those that "
                    "are there cannot be taken"
                )
            left = following / 1000 - self.clock()
            self._rest(max(0.0, min(self.poll_seconds, left)), cost_seconds)

    def _rest(self, seconds: float, cost_seconds: float) -> None:
        """Wait for the next poll. A ring may ask for it sooner, but not at once again: polls that
        are asked for take 1/QUIET of a core at most, however busy the rings are.
        """  # noqa: D205 - one sentence
        quiet = min(seconds, cost_seconds * QUIET)
        if not self._stop.wait(quiet):
            self.doorbell.wait(seconds - quiet)

    def flush(self, stamp_ms: int) -> None:
        """Read produced, drain, then mark: in that order a loss shows and a race does not."""
        produced: list[Produced] = []

        def drain(probe: Probe) -> None:
            counted = probe.produced()
            probe.collect()
            produced.append(counted)
            self.statuses[probe.name] = probe.status()

        self._each(drain)
        statuses = tuple(self.statuses[probe.name] for probe in self.probes)
        self.queue.mark(FlushMark(stamp_ms, tuple(produced), statuses))

    def _ready_event(self) -> Event:
        """What orders the events of a node, and those of nodes that were started one by one."""
        attached = [name for name, status in self.statuses.items() if status.state != "off"]
        fields = (("probes", ",".join(attached)), ("monotonic_seconds", time.monotonic()))
        return Event(PROBES_READY, int(self.clock() * 1000), None, fields)

    def _next_flush(self) -> int:
        now_ms = int(self.clock() * 1000)
        return now_ms - now_ms % self.flush_interval_ms + self.flush_interval_ms

    def _attach(self, probe: Probe) -> None:
        name = probe.name
        # Whether it runs at all is ours to know; what a probe is not told it cannot refuse.
        settings = dict(self.settings.get(name, {}))
        if settings.pop("enabled", True) is False:
            self.statuses[name] = ProbeStatus(name, "off", "disabled", "switched off", "")
            return

        def emit(reading: Reading) -> None:
            self.queue.put(name, reading)

        options = ProbeOptions(settings)

        def start() -> None:
            self.statuses[name] = probe.start(options, emit)

        self._guard(probe, start)

    def _each(self, action: Callable[[Probe], None]) -> None:
        for probe in self.probes:
            if self.statuses[probe.name].state != "off":
                self._guard(probe, lambda probe=probe: action(probe))  # type: ignore[misc]
                # Not later: of a process that lives for a moment the flusher reads whose it is.
                self.queue.wake()

    def _guard(self, probe: Probe, action: Callable[[], None]) -> None:
        try:
            action()
        # A probe may be a third party's, and a library under it may call `exit`.
        except (Exception, SystemExit) as error:
            LOG.exception("probe %s failed and is switched off", probe.name)
            self.statuses[probe.name] = _failed(probe.name, error)
            try:
                probe.stop()
            except (Exception, SystemExit):
                LOG.exception("probe %s could not be stopped", probe.name)


def _failed(name: str, error: BaseException) -> ProbeStatus:
    """The line about a probe that raised what it should not."""
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        mend = "raise the limit of open files (LimitNOFILE= of the service, ulimit -n)"
        return ProbeStatus(name, "off", "no_descriptors", str(error), mend)
    mend = "please report this; the agent's log has the traceback"
    return ProbeStatus(name, "off", "fault", f"{type(error).__name__}: {error}", mend)
