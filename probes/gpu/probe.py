"""`gpu_utilization`: percent of time in which a GPU ran a kernel, for each process on it.

Source: NVML's utilisation rates and process list. A shared GPU gives one level per process, an idle
one a level without a process. See README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from engine.config.model import NoSettings
from engine.readings import Level, ProbeStatus, Produced
from probes.gpu.nvml import explain
from probes.gpu.sampler import GpuMean, Sampler
from probes.libraries.maps import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.readings import ProbeOptions, Process, Reading

METRIC = "gpu_utilization"
# Opening NVML takes a second or two per GPU where the persistence daemon does not run.
PATIENCE_SECONDS = 3.0
SILENT_SECONDS = 15.0


class GpuProbe:
    """See the module. One thread uses it; NVML is asked by another."""

    name = "gpu"
    Config: ClassVar[type[NoSettings]] = NoSettings

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._sampler = sampler or Sampler()
        self._emit: Callable[[Reading], None] | None = None
        self._refused: set[str] = set()
        self._count = 0
        self._stopped = False
        self._off = ProbeStatus(self.name, "off", "stopped")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Open NVML; `options` are not used. Off when there is none: a node without GPUs."""
        del options
        self._emit = emit
        self._sampler.start(PATIENCE_SECONDS)
        error = self._sampler.error()
        if error is not None:
            self.stop()
            self._off = ProbeStatus(self.name, "off", error.reason, error.detail, error.mend)
        return self.status()

    def poll(self) -> None:
        """Nothing to drain."""

    def produced(self) -> Produced:
        """A poller loses nothing."""
        return Produced(self.name)

    def collect(self) -> None:
        """Emit the mean utilisation of each GPU since the last call."""
        if self._emit is None:
            return
        gpus = self._sampler.take()
        self._refused = {gpu.reason for gpu in gpus if gpu.reason}
        self._count = len(gpus)
        for gpu in gpus:
            for level in levels(gpu, identify):
                self._emit(level)

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._stopped or self._emit is None:
            return self._off
        error = self._sampler.error()
        if error is not None:  # it worked before; it is asked again each minute
            return ProbeStatus(self.name, "degraded", error.reason, error.detail, error.mend)
        silent = self._sampler.silent_seconds()
        if silent > SILENT_SECONDS:
            detail = f"NVML has not answered for {silent:.0f} s"
            mend = "check dmesg for Xid messages; nvidia-smi will hang too"
            return ProbeStatus(self.name, "degraded", "nvml_silent", detail, mend)
        if self._refused:
            reason = min(self._refused)
            return ProbeStatus(self.name, "degraded", reason, *explain(reason))
        return ProbeStatus(self.name, "attached", "", f"{self._count} GPUs" if self._count else "")

    def stop(self) -> None:
        """Stop asking."""
        self._stopped = True
        self._sampler.stop()


def levels(gpu: GpuMean, identify_: Callable[[int], Process | None]) -> Iterator[Level]:
    """One level per process on a GPU; without processes one that belongs to the node."""
    if gpu.utilization is None:
        return
    labels = (("gpu", str(gpu.index)), ("uuid", gpu.uuid))
    # A pid that is not seen here belongs to another pid namespace or has just ended.
    owners: list[Process | None] = [each for each in map(identify_, gpu.pids) if each is not None]
    for owner in owners or [None]:
        yield Level(METRIC, owner, gpu.utilization, labels)
