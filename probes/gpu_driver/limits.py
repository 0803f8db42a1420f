"""Settings of the probe, and how large the kernel's tables are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.config.model import Section
from engine.config.quantities import Interval, PositiveDuration

_Limit = Annotated[int, Field(strict=True, ge=1)]
# enter_0 to enter_3 of program.bpf.c.
MAX_FUNCTIONS = 4


class GpuDriverSettings(Section):
    """What `probes: gpu_driver:` may hold.

    hook: which way; auto takes kprobes where the kernel has them and the driver has one of
    `functions`. devices: globs of the driver's device files; calls on other files are summed as
    `other`. libraries: who maps one of these uses a GPU. slow: a call that takes as long is an
    event. max_syscall_tax_seconds: the most that the tracepoints may add to every system call of
    the node, measured at start.

    holders_limit: processes that use a GPU. open_limit: their threads inside a call at one time.
    totals_limit: pairs of process and descriptor; a PyTorch process opens about 30 per GPU.
    ring_pages: 4 pages hold 340 slow calls between two polls.
    """

    hook: Literal["auto", "kprobe", "tracepoint"] = "auto"
    devices: tuple[str, ...] = ("/dev/nvidia*",)
    libraries: tuple[str, ...] = ("libcuda.so",)
    functions: Annotated[tuple[str, ...], Field(max_length=MAX_FUNCTIONS)] = (
        "nvidia_unlocked_ioctl",
        "nvidia_frontend_unlocked_ioctl",
        "uvm_unlocked_ioctl_entry",
    )
    slow: PositiveDuration = Interval(1_000)
    max_syscall_tax_seconds: Annotated[float, Field(gt=0)] = 200e-9
    holders_limit: _Limit = 4_096
    open_limit: _Limit = 16_384
    totals_limit: _Limit = 65_536
    ring_pages: _Limit = 4

    def defines(self) -> dict[str, int]:
        """As the program names them."""
        return {
            "HOLDERS_LIMIT": self.holders_limit,
            "OPEN_LIMIT": self.open_limit,
            "TOTALS_LIMIT": self.totals_limit,
            # The kernel takes powers of two only.
            "RING_PAGES": 1 << (self.ring_pages - 1).bit_length(),
            "SLOW_NS": self.slow.ms * 1_000_000,
        }
