"""NVML through nvidia-ml-py; the only module that knows it.

NVML's refusals are ordinary answers here: each becomes a short stable reason.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from rules.errors import StallwatchError


class NvmlError(StallwatchError):
    """NVML cannot be used now. `reason`: a stable word; `mend`: what the administrator can do."""

    def __init__(self, reason: str, detail: str, mend: str = "") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.mend = mend


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU now. `utilization`: percent of the last sampling period of the driver in which a
    kernel ran, None when it cannot be told, for `reason`. `pids`: in the host's pid namespace.
    """  # noqa: D205 - one sentence

    index: int
    uuid: str
    utilization: float | None
    pids: tuple[int, ...] = ()
    reason: str = ""


# By the number of nvmlReturn_t (nvml.h): reason, what people read, mend.
REFUSALS: dict[int, tuple[str, str, str]] = {
    1: ("driver_absent", "NVML lost its driver", "check dmesg for NVRM messages"),
    3: (
        "mig",
        "NVML tells no utilisation of a GPU that is partitioned (MIG) or does not support it",
        "use the profiling counters of DCGM for MIG instances",
    ),
    4: ("no_permission", "NVML may not be asked by this user", "run the agent as root"),
    9: (
        "driver_absent",
        "the NVIDIA kernel driver is not loaded",
        "modprobe nvidia; in a container, start it with --gpus all",
    ),
    12: (
        "library_absent",
        "libnvidia-ml.so.1 is not installed",
        "it comes with the NVIDIA driver; on a node without GPUs nothing is to be done",
    ),
    13: ("old_driver", "the NVIDIA driver lacks a function", "update it to 510 or later"),
    15: ("gpu_lost", "a GPU fell off the bus", "check dmesg for Xid 79; reset or reboot the node"),
    16: ("gpu_lost", "a GPU must be reset", "nvidia-smi --gpu-reset, or reboot the node"),
    18: (
        "driver_mismatch",
        "the NVIDIA library and kernel driver have different versions",
        "reboot the node, or reload the kernel modules after the update",
    ),
}
OTHER = ("nvml_error", "NVML failed", "run nvidia-smi; it asks the same library")


class Nvml:
    """An open NVML. `binding` is the module pynvml; raises NvmlError."""

    def __init__(self, binding: Any = None) -> None:
        if binding is None:
            try:
                import pynvml
            except ImportError as error:
                raise NvmlError(
                    "library_absent", f"nvidia-ml-py cannot be loaded: {error}", "make venv"
                ) from error
            binding = pynvml
        self._nvml = binding
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise refusal(error) from error

    def read(self) -> list[GpuSample]:
        """Every GPU now. Raises NvmlError when none can be asked."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise refusal(error) from error
        return [self._read_gpu(index) for index in range(count)]

    def driver(self) -> str:
        """The driver's version. Raises NvmlError."""
        try:
            return str(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError as error:
            raise refusal(error) from error

    def close(self) -> None:
        """Let go; the library stays loaded."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _read_gpu(self, index: int) -> GpuSample:
        uuid = ""
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(self._nvml.nvmlDeviceGetUUID(handle))
            utilization = float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except self._nvml.NVMLError as error:
            return GpuSample(index, uuid, None, reason=refusal(error).reason)
        return GpuSample(index, uuid, utilization, self._pids(handle))

    def _pids(self, handle: Any) -> tuple[int, ...]:
        pids: set[int] = set()
        for kind in ("Compute", "Graphics"):
            ask = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses")
            # A GPU that tells no processes is a GPU without an owner, not a failure.
            with contextlib.suppress(self._nvml.NVMLError):
                pids.update(int(process.pid) for process in ask(handle))
        return tuple(sorted(pids))


def refusal(error: Any) -> NvmlError:
    """NVML's answer as ours."""
    number = int(getattr(error, "value", 999))
    reason, detail, mend = REFUSALS.get(number, OTHER)
    return NvmlError(reason, detail if number in REFUSALS else f"{detail}: error {number}", mend)


def explain(reason: str) -> tuple[str, str]:
    """(detail, mend) of a reason that a GpuSample gave."""
    rows = (*REFUSALS.values(), OTHER)
    return next(((detail, mend) for word, detail, mend in rows if word == reason), OTHER[1:])
