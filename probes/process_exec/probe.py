"""`process_exec_total`: how often a program was started on this node.

Source: tracepoint sched:sched_process_exec. Where tracefs is closed to us, the raw tracepoint
of the same name, which needs none.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.config.model import NoSettings
from engine.readings import Count, ProbeStatus, Produced
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Reading

METRIC = "process_exec_total"
_SOURCE = Path(__file__).with_name("program.bpf.c")
_PROGRAM = "on_exec"
_MISSES = ("", "recursion_misses")


class ProcessExecProbe:
    """Node-level counter; no process is named."""

    name = "process_exec"
    Config: ClassVar[type[NoSettings]] = NoSettings

    def __init__(self) -> None:
        self._bpf: BpfObject | None = None
        self._emit: Callable[[Reading], None] | None = None
        self._status = ProbeStatus(self.name, "off")
        self._seen = 0

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Attach; `options` are not used."""
        del options
        self._emit = emit
        try:
            self._status = self._attach()
        except UnavailableError as error:
            self.stop()
            self._status = error.status(self.name)
        return self._status

    def _attach(self) -> ProbeStatus:
        self._bpf = load(_SOURCE, {_PROGRAM: ProgramType.TRACEPOINT})
        try:
            self._bpf.attach_tracepoint(_PROGRAM, "sched", "sched_process_exec")
        except UnavailableError as error:
            self._bpf.close()
            self._bpf = load(_SOURCE, {_PROGRAM: ProgramType.RAW_TRACEPOINT})
            with contextlib.suppress(UnavailableError):
                self._bpf.attach_raw_tracepoint(_PROGRAM, "sched_process_exec")
                return ProbeStatus(self.name, "attached")
            raise UnavailableError(error.reason, error.detail, error.mend) from error
        return ProbeStatus(self.name, "attached")

    def poll(self) -> None:
        """Nothing to drain."""

    def produced(self) -> Produced:
        """The kernel's counter."""
        if self._bpf is None:
            return Produced(self.name)
        return Produced(
            self.name,
            (("", self._bpf.produced()[0]),),
            ((_MISSES, self._bpf.recursion_misses(_PROGRAM)),),
        )

    def collect(self) -> None:
        """Emit what was counted since the last call."""
        if self._bpf is None or self._emit is None:
            return
        total = self._bpf.produced()[0]
        delta, self._seen = total - self._seen, total
        self._emit(Count(METRIC, None, float(delta), weight=delta))

    def status(self) -> ProbeStatus:
        """The present state."""
        return self._status

    def stop(self) -> None:
        """Detach."""
        if self._bpf is not None:
            self._bpf.close()
            self._bpf = None
        if self._status.state != "off":
            self._status = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
