"""`node_clock_*`: whether this node's wall clock is disciplined, how far off it may be, its jumps.

Source: adjtimex(2), and the difference of CLOCK_REALTIME to CLOCK_MONOTONIC. See README.md for how
events of several nodes are put in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from engine.config.model import NoSettings
from engine.readings import Count, Level, ProbeStatus, Produced
from probes.clock import wall
from probes.clock.discipline import read_discipline

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Reading

MEND = "run chronyd or systemd-timesyncd; events of several nodes cannot be ordered without"


class ClockProbe:
    """See the module. One thread uses it."""

    name = "clock"
    Config: ClassVar[type[NoSettings]] = NoSettings

    def __init__(self) -> None:
        self._emit: Callable[[Reading], None] | None = None
        self._status = ProbeStatus(self.name, "off", "not_started")
        self._steps = 0

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Look once at the clocks; `options` are not used."""
        del options
        self._emit = emit
        wall.observe()
        self._steps = wall.steps()
        self._look()
        return self._status

    def poll(self) -> None:
        """Keep the offset of the wall clock, for the times of events."""
        wall.observe()

    def produced(self) -> Produced:
        """A poller loses nothing."""
        return Produced(self.name)

    def collect(self) -> None:
        """Emit the state of the clock."""
        if self._emit is None:
            return
        for level in self._look():
            self._emit(level)
        steps = wall.steps()
        delta, self._steps = steps - self._steps, steps
        self._emit(Count("node_clock_steps_total", None, float(delta)))

    def status(self) -> ProbeStatus:
        """The present state. A clock that nobody disciplines is a finding, not a lame probe."""
        return self._status

    def stop(self) -> None:
        """Stop looking."""
        self._emit = None
        self._status = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")

    def _look(self) -> list[Level]:
        try:
            clock = read_discipline()
        except OSError as error:
            detail = f"adjtimex: {error.strerror}"
            mend = "seccomp refuses it: docker --security-opt seccomp=unconfined"
            self._status = ProbeStatus(self.name, "degraded", "clock_refused", detail, mend)
            return []
        detail = "" if clock.synchronized else "the wall clock is not synchronised"
        self._status = ProbeStatus(self.name, "attached", "", detail)
        return [
            Level("node_clock_synchronized", None, float(clock.synchronized)),
            Level("node_clock_offset_seconds", None, clock.offset_seconds),
            Level("node_clock_error_seconds", None, clock.error_seconds),
        ]
