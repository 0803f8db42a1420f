"""Asks NVML in a thread of its own.

A GPU in trouble can hold an NVML call for seconds or for ever; the other probes must not wait for
it. The driver's figure covers a sixth of a second to one second, so it is read once a second and
averaged over the flush interval.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.gpu.nvml import GpuSample, Nvml, NvmlError

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_SECONDS = 1.0
RETRY_SECONDS = 60.0


@dataclass(slots=True)
class GpuMean:
    """One GPU over an interval: the mean of its samples (None: there was none), its last pids."""

    index: int
    uuid: str
    total: float = 0.0
    count: int = 0
    pids: tuple[int, ...] = ()
    reason: str = ""

    @property
    def utilization(self) -> float | None:
        """Percent."""
        return self.total / self.count if self.count else None

    def add(self, sample: GpuSample) -> None:
        """One more sample."""
        self.uuid = sample.uuid or self.uuid
        self.pids, self.reason = sample.pids, sample.reason
        if sample.utilization is not None:
            self.total += sample.utilization
            self.count += 1


class Sampler:
    """Runs from `start` to `stop`. `take` gives what was sampled since the last call."""

    def __init__(
        self,
        connect: Callable[[], Nvml] = Nvml,
        sample_seconds: float = SAMPLE_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._connect = connect
        self._sample_seconds = sample_seconds
        self._retry_seconds = retry_seconds
        self._gpus: dict[int, GpuMean] = {}
        self._error: NvmlError | None = None
        self._asked: float | None = None
        self._first = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def start(self, patience_seconds: float) -> None:
        """Begin; returns after the first answer, or after `patience_seconds`."""
        # A daemon: a call that NVML never returns from must not keep the agent from ending.
        threading.Thread(target=self._run, name="stallwatch-gpu", daemon=True).start()
        self._first.wait(patience_seconds)

    def take(self) -> list[GpuMean]:
        """The GPUs sampled since the last call, by index."""
        with self._lock:
            gpus, self._gpus = self._gpus, {}
        return [gpus[index] for index in sorted(gpus)]

    def error(self) -> NvmlError | None:
        """Why NVML cannot be used, None when it can."""
        with self._lock:
            return self._error

    def silent_seconds(self) -> float:
        """How long a question has been waiting for NVML's answer; 0 when none is."""
        with self._lock:
            return 0.0 if self._asked is None else time.monotonic() - self._asked

    def stop(self) -> None:
        """End; does not wait for a call that hangs."""
        self._stopped.set()

    def _run(self) -> None:
        nvml: Nvml | None = None
        while not self._stopped.is_set():
            nvml = self._ask(nvml)
            self._first.set()
            self._stopped.wait(self._retry_seconds if nvml is None else self._sample_seconds)
        if nvml is not None:
            nvml.close()

    def _ask(self, nvml: Nvml | None) -> Nvml | None:
        """Sample once; None when NVML has to be opened anew."""
        with self._lock:
            self._asked = time.monotonic()
        error, samples = None, []
        try:
            nvml = nvml or self._connect()
            samples = nvml.read()
        except NvmlError as refused:
            error = refused
            if nvml is not None:
                nvml.close()
                nvml = None
        with self._lock:
            self._asked, self._error = None, error
            for sample in samples:
                self._gpus.setdefault(sample.index, GpuMean(sample.index, sample.uuid)).add(sample)
        return nvml
