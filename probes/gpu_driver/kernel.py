"""The kernel half: the way in, what it costs, and reading what the program counted."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf import capabilities
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.tracepoint import read_format
from probes.gpu_driver.records import (
    File,
    OpenCall,
    SlowCall,
    Total,
    decode_open,
    decode_slow,
    decode_total,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.readings import MapUse
    from probes.bpf.attachment import Attachment
    from probes.gpu_driver.limits import GpuDriverSettings

_SOURCE = Path(__file__).with_name("program.bpf.c")
_SYMBOLS = Path("/proc/kallsyms")
# The order of the enums in program.bpf.c.
STREAMS = ("", "events")
LOSSES = (("open", "map_full"), ("", "map_full"), ("events", "ring_full"))
_POINTS = {"on_enter": "sys_enter_ioctl", "on_exit": "sys_exit_ioctl"}
_CALLS_PER_TRIAL, _TRIALS = 2_000, 7


class DriverProgram:
    """The loaded program, attached by kprobes (for good) or tracepoints (while `active`).

    `functions`: the driver's functions that are probed, empty with tracepoints. `tax_seconds`: what
    the tracepoints add to every system call of the node while they are attached.
    """

    def __init__(self, settings: GpuDriverSettings) -> None:
        """Load and, with kprobes, attach. Raises UnavailableError, also for a tax too high."""
        self.functions = _functions(settings)
        self.tax_seconds = 0.0
        self._tracepoints: list[Attachment] = []
        defines = settings.defines()
        if not self.functions:
            enter = read_format("syscalls", "sys_enter_ioctl")
            leave = read_format("syscalls", "sys_exit_ioctl")
            enter.require("fd", "cmd")
            leave.require("ret")
            defines |= enter.defines("ENTER", ("fd", "cmd")) | leave.defines("EXIT", ("ret",))
            kinds = dict.fromkeys(_POINTS, ProgramType.TRACEPOINT)
        else:
            names = [f"enter_{number}" for number in range(len(self.functions))]
            kinds = dict.fromkeys((*names, "on_return"), ProgramType.KPROBE)
        self._programs = tuple(kinds)
        self._bpf: BpfObject = load(_SOURCE, kinds, defines)
        try:
            self._slow = self._bpf.events("slow_calls", defines["RING_PAGES"])
            for number, function in enumerate(self.functions):
                self._bpf.attach_kprobe("on_return", function, at_return=True)
                self._bpf.attach_kprobe(f"enter_{number}", function)
            if not self.functions:
                self._measure(settings.max_syscall_tax_seconds)
        except UnavailableError:
            self._bpf.close()
            raise

    @property
    def active(self) -> bool:
        """Whether it is attached now."""
        return bool(self.functions or self._tracepoints)

    def follow(self, pids: Iterable[int], gone: Iterable[int]) -> None:
        """These processes use a GPU, those do not any more. Raises UnavailableError."""
        holders = self._bpf.map("holders")
        for pid in gone:
            holders.delete(struct.pack("=I", pid))
        try:
            for pid in pids:
                holders.update(struct.pack("=I", pid), struct.pack("=I", 1))
        except OSError as error:
            detail = f"more than {holders.info.max_entries} processes use a GPU"
            raise UnavailableError("attach_failed", detail, "raise holders_limit") from error

    def switch(self, *, on: bool) -> None:
        """Attach the tracepoints, or detach them. Raises UnavailableError."""
        if self.functions or on == self.active:
            return
        if on:
            self._attach()
        else:
            self._detach()

    def _attach(self) -> None:
        for program, event in _POINTS.items():
            self._tracepoints.append(self._bpf.attach_tracepoint(program, "syscalls", event))

    def _detach(self) -> None:
        for attached in self._tracepoints:
            self._bpf.detach(attached)
        self._tracepoints.clear()

    def _measure(self, limit_seconds: float) -> None:
        """What the tracepoints add to a system call that is not ioctl."""
        before = _system_call_seconds()
        self._attach()
        try:
            self.tax_seconds = max(0.0, _system_call_seconds() - before)
        finally:
            self._detach()
        if self.tax_seconds > limit_seconds:
            raise UnavailableError(
                "too_costly",
                f"the tracepoints of ioctl would add {self.tax_seconds * 1e9:.0f} ns to every "
                f"system call of the node; {limit_seconds * 1e9:.0f} ns are allowed",
                "a kernel with kprobes, or max_syscall_tax_seconds in the probe's settings",
            )

    def produced(self) -> tuple[tuple[str, int], ...]:
        """Calls that returned, and slow ones, by stream."""
        return tuple(zip(STREAMS, self._bpf.produced(), strict=True))

    def lost(self) -> tuple[tuple[tuple[str, str], int], ...]:
        """What was lost so far, by stream and reason."""
        misses = sum(self._bpf.recursion_misses(name) for name in self._programs)
        return (*zip(LOSSES, self._bpf.lost(), strict=True), (("", "recursion_misses"), misses))

    def totals(self) -> dict[File, Total]:
        """All totals since the first call of each file."""
        items = self._bpf.map("totals").items()
        return {File.decode(key): decode_total(value) for key, value in items}

    def open_calls(self) -> list[OpenCall]:
        """Calls that have not returned."""
        return [decode_open(key, value) for key, value in self._bpf.map("open_calls").items()]

    def slow_calls(self) -> list[SlowCall]:
        """Slow calls since the last time."""
        return [decode_slow(record) for record in self._slow.drain()]

    def forget(self, files: Iterable[File]) -> None:
        """Files of processes that are gone."""
        for file in files:
            self._bpf.map("totals").delete(file.encode())

    def abandon(self, call: OpenCall) -> None:
        """Its thread died inside the call."""
        self._bpf.map("open_calls").delete(struct.pack("=Q", call.pid << 32 | call.tid))

    def map_use(self) -> tuple[MapUse, ...]:
        """How full the kernel maps are."""
        return self._bpf.map_use()

    def close(self) -> None:
        """Detach and free."""
        self._bpf.close()


def _functions(settings: GpuDriverSettings) -> tuple[str, ...]:
    """The driver's functions to probe; none where the tracepoints are to be used.

    Raises UnavailableError (no_kprobe) when kprobes are asked for and cannot be had.
    """
    if settings.hook == "tracepoint":
        return ()
    have = capabilities.kprobe_pmu() is not None
    found = tuple(name for name in settings.functions if have and name in _kernel_functions())
    if settings.hook == "kprobe" and not found:
        wanted = ", ".join(settings.functions)
        detail = f"the kernel has none of {wanted}" if have else "this kernel has no kprobes"
        raise UnavailableError("no_kprobe", detail, "hook: auto")
    return found


def _kernel_functions() -> frozenset[str]:
    """Names of the functions of the kernel and its modules (proc(5), kallsyms)."""
    with _SYMBOLS.open(encoding="ascii", errors="replace") as lines:
        fields = (line.split() for line in lines)
        return frozenset(each[2] for each in fields if len(each) > 2 and each[1] in "tT")


def _system_call_seconds() -> float:
    """The fastest of some trials of a system call that does next to nothing."""
    best = float("inf")
    for _ in range(_TRIALS):
        start = time.perf_counter()
        for _ in range(_CALLS_PER_TRIAL):
            os.getppid()
        best = min(best, (time.perf_counter() - start) / _CALLS_PER_TRIAL)
    return best
