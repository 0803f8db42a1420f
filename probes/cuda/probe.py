"""`cuda_calls_total`, `cuda_call_seconds`, `cuda_bytes_total`, `cuda_errors_total`,
`cuda_memory_bytes`, and an event `cuda_slow_call` for each call that took long.

Source: uprobes at entries and exits of the functions of calls.py in every libcudart and libcuda
that a process maps. See README.md for what each figure means and does not mean.
"""  # noqa: D205 - one sentence

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from engine.readings import ProbeStatus, Produced
from probes.bpf.errors import UnavailableError
from probes.cuda.running import Running
from probes.cuda.settings import CudaSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import ProbeOptions, Reading


class CudaProbe:
    """See the module. One thread uses it."""

    name = "cuda"
    Config: ClassVar[type[CudaSettings]] = CudaSettings

    def __init__(self) -> None:
        self._running: Running | None = None
        self._off = ProbeStatus(self.name, "off", "not_started")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Load, and attach to every libcudart and libcuda that is mapped now."""
        known = {k: v for k, v in options.settings.items() if k in CudaSettings.model_fields}
        settings = CudaSettings.model_validate(known)
        try:
            self._running = Running(self.name, settings, emit)
        except UnavailableError as error:
            self._off = error.status(self.name)
            return self._off
        self.poll()
        return self.status()

    def poll(self) -> None:
        """Follow processes and tell slow calls."""
        if self._running is not None:
            self._running.poll()

    def produced(self) -> Produced:
        """Entries and exits, slow calls, and changes of memory that the kernel saw."""
        return Produced(self.name) if self._running is None else self._running.produced()

    def collect(self) -> None:
        """Emit what every process did since the last call, and what it holds."""
        if self._running is not None:
            self._running.collect()

    def status(self) -> ProbeStatus:
        """The present state."""
        return self._off if self._running is None else self._running.status()

    def stop(self) -> None:
        """Detach."""
        if self._running is not None:
            self._running.close()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")
        self._running = None
