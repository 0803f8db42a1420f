"""What a trap costs on this machine, measured; what one at a given instruction will cost."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import platform
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from probes.bpf import attachment, syscall
from probes.bpf.errors import UnavailableError
from probes.budget.page import KINDS, CodePage, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probes.bpf.attachment import Attachment

LOG = logging.getLogger(__name__)

# Where it cannot be measured: a slow trap of a virtual machine, so that a budget is rather kept too
# early than too late. (Measured: 0.7 µs emulated and 9.3 µs stepped on a virtual machine whose
# debug traps leave the guest; 0.5 to 1.2 µs for either on bare metal.)
DEFAULT_SECONDS: dict[Kind, float] = {"emulated": 2e-6, "stepped": 10e-6, "exit": 10e-6}
# Calls a run, runs a kind; the least run counts, for what disturbs can only lengthen. A run is much
# shorter than a time slice of the scheduler; with traps of 10 µs they take 40 ms in all.
CALLS, RUNS = 40, 35
# No trap is that fast: below, the probe did not fire.
LEAST_SECONDS = 20e-9
# A clock rate or a hypervisor may change; a measurement costs as much as 40 ms of one core. The
# second one comes after a minute, each further one after twice the time, up to this.
MEASURE_EVERY_SECONDS = 6 * 3600.0
FIRST_PAUSE_SECONDS = 60.0

_PROG_LOAD, _PROG_TYPE_KPROBE, _MAP_TYPE_HASH = 5, 2, 1


@dataclass(frozen=True, slots=True)
class TrapCosts:
    """Seconds of one trap, a small BPF program included, by what is under the breakpoint.

    `measured` False: the values are defaults, and `reason` says why.
    """

    emulated: float = DEFAULT_SECONDS["emulated"]
    stepped: float = DEFAULT_SECONDS["stepped"]
    exit: float = DEFAULT_SECONDS["exit"]
    measured: bool = False
    reason: str = ""

    def entry(self, instruction: bytes, machine: str = platform.machine()) -> float:
        """Seconds of a trap at a function's first instruction, given its first bytes."""
        return self.emulated if is_emulated(instruction, machine) else self.stepped

    def mean(self, codes: Sequence[bytes], machine: str = platform.machine()) -> float:
        """Seconds of a trap at one of these instructions, entries and exits alike.

        A call runs into one entry and one exit, so returns together count as much as the rest.
        Without any, as much as the dearest.
        """
        entries = [self.entry(code, machine) for code in codes if not is_return(code, machine)]
        exits = [self.exit] if len(entries) < len(codes) else []
        parts = [max(entries, default=0.0)] * bool(entries) + exits
        return sum(parts) / len(parts) if parts else max(self.stepped, self.exit)

    def by_kind(self) -> tuple[tuple[Literal["entry", "entry_stepped", "exit"], float], ...]:
        """For the metric: `entry` where the kernel emulates the first instruction."""
        return (("entry", self.emulated), ("entry_stepped", self.stepped), ("exit", self.exit))


def is_emulated(instruction: bytes, machine: str) -> bool:
    """Whether the kernel emulates an instruction instead of single-stepping a copy of it.

    arch/x86/kernel/uprobes.c (push_setup_xol_ops, branch_setup_xol_ops): push, nop, jmp, call, jcc.
    Multi-byte nops, which newer kernels emulate too, count as stepped, and so does what is unknown.
    arch/arm64/kernel/probes/decode-insn.c: immediate and register branches, ret, adr, ldr literal.
    """
    if machine == "aarch64":
        return len(instruction) >= 4 and _arm64_emulated(int.from_bytes(instruction[:4], "little"))
    if machine != "x86_64" or not instruction:
        return False
    first = instruction[0]
    if first in range(0x40, 0x50):  # a REX prefix, as in push r12
        return len(instruction) > 1 and instruction[1] in range(0x50, 0x58)
    if first == 0x0F:
        return len(instruction) > 1 and instruction[1] in range(0x80, 0x90)
    return first in {*range(0x50, 0x58), *range(0x70, 0x80), 0x90, 0xE8, 0xE9, 0xEB}


def is_return(instruction: bytes, machine: str) -> bool:
    """Whether an instruction is a return (x86-64: ret, rep ret; arm64: ret x30)."""
    if machine == "aarch64":
        return instruction[:4] == bytes.fromhex("c0035fd6")
    return instruction[:1] in {b"\xc3", b"\xc2"} or instruction[:2] == b"\xf3\xc3"


def _arm64_emulated(word: int) -> bool:
    masks = (
        (0x7C000000, 0x14000000),  # b, bl
        (0xFF000010, 0x54000000),  # b.cond
        (0x7E000000, 0x34000000),  # cbz, cbnz
        (0x7E000000, 0x36000000),  # tbz, tbnz
        (0xFF9FFC1F, 0xD61F0000),  # br, blr, ret
        (0x1F000000, 0x10000000),  # adr, adrp
        (0xBF000000, 0x18000000),  # ldr literal
    )
    return any(word & mask == value for mask, value in masks)


def measure() -> TrapCosts:
    """Measure on a page of our own; never raises: what goes wrong gives defaults and a reason.

    Takes 40 to 100 ms: three attachments, then runs of calls with and without them, the least of
    each. Detaching goes on in a thread. The program looks up and updates a hash map, as ours do.
    """
    try:
        page = CodePage()
    except (OSError, AttributeError) as error:
        return TrapCosts(reason=str(error))
    try:
        program = _small_program()
        bare = {kind: _least(page, kind) for kind in KINDS}
        attached = _attach(program, page)
        trapped = {kind: _least(page, kind) for kind in KINDS}
    except (OSError, UnavailableError) as error:
        page.close()
        return TrapCosts(reason=str(error))
    _detach_later(attached, page)
    emulated, stepped, leaving = (max(trapped[kind] - bare[kind], 0.0) for kind in KINDS)
    if min(emulated, stepped, leaving) < LEAST_SECONDS:
        return TrapCosts(reason="a trap seemed to cost nothing: the probe did not fire")
    return TrapCosts(emulated, stepped, leaving, measured=True)


def _least(page: CodePage, kind: Kind) -> float:
    run = page.runner(kind)
    run(1)
    best = float("inf")
    for _ in range(RUNS):
        before = time.perf_counter()
        run(CALLS)
        best = min(best, time.perf_counter() - before)
    return best / CALLS


def _attach(program: _Program, page: CodePage) -> list[Attachment]:
    attached: list[Attachment] = []
    try:
        attached.extend(
            attachment.attach_uprobe(program.fd, page.path, page.offset(kind)) for kind in KINDS
        )
    except UnavailableError:
        for each in attached:
            each.detach()
        raise
    finally:
        program.close()
    return attached


def _detach_later(attached: Sequence[Attachment], page: CodePage) -> None:
    """Detach in a thread: 100 to 300 ms each (RCU)."""

    def work() -> None:
        for each in attached:
            with contextlib.suppress(OSError):
                each.detach()
        page.close()

    threading.Thread(target=work, name="calibration-end", daemon=True).start()


@dataclass(slots=True)
class _Program:
    fd: int
    map_fd: int

    def close(self) -> None:
        """Let go; what is attached holds the kernel's own references."""
        for fd in (self.fd, self.map_fd):
            with contextlib.suppress(OSError):
                os.close(fd)


def _small_program() -> _Program:
    """A BPF program like those of our probes: who, when, and one update of a hash map.

    Assembled here, because a compiler takes half a second: instructions of
    include/uapi/linux/bpf.h as (code, registers, offset, immediate). Raises OSError.
    """
    map_fd = syscall.map_create(_MAP_TYPE_HASH, 8, 8, 16)
    instructions = b"".join(
        struct.pack("=BBhi", *each)
        for each in (
            (0x85, 0x00, 0, 14),  # call bpf_get_current_pid_tgid
            (0x7B, 0x0A, -8, 0),  # *(u64 *)(r10 - 8) = r0
            (0x85, 0x00, 0, 5),  # call bpf_ktime_get_ns
            (0x7B, 0x0A, -16, 0),  # *(u64 *)(r10 - 16) = r0
            (0x18, 0x11, 0, map_fd),  # r1 = map
            (0x00, 0x00, 0, 0),
            (0xBF, 0xA2, 0, 0),  # r2 = r10
            (0x07, 0x02, 0, -8),  # r2 += -8
            (0xBF, 0xA3, 0, 0),  # r3 = r10
            (0x07, 0x03, 0, -16),  # r3 += -16
            (0xB7, 0x04, 0, 0),  # r4 = BPF_ANY
            (0x85, 0x00, 0, 2),  # call bpf_map_update_elem
            (0xB7, 0x00, 0, 0),  # r0 = 0
            (0x95, 0x00, 0, 0),  # exit
        )
    )
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack(
        "=IIQQIIQII",
        _PROG_TYPE_KPROBE,
        len(instructions) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,  # kern_version: checked for kprobes before 5.0 only
        0,
    )
    try:
        return _Program(syscall.bpf(_PROG_LOAD, attr)[0], map_fd)
    except OSError:
        os.close(map_fd)
        raise


class _Costs:
    """The least of the newest measurements, shared by all probes of the agent.

    A machine that is busy at the start, or a host that is, can make each trap several times as
    dear for a while (seen: 88 instead of 9.7 µs), so the second measurement comes soon.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: list[tuple[float, TrapCosts]] = []
        self._due = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._costs = TrapCosts()

    def __call__(self) -> TrapCosts:
        """Measure at the first call, and again when it is time."""
        with self._lock:
            now = time.monotonic()
            if not self._recent or now >= self._due:
                self._measure(now)
            return self._costs

    def _measure(self, now: float) -> None:
        first, newest = not self._recent, measure()
        if first and not newest.measured:
            LOG.warning("the cost of a uprobe is assumed, not known: %s", newest.reason)
        since = now - MEASURE_EVERY_SECONDS
        self._recent = [(at, costs) for at, costs in self._recent if at > since] + [(now, newest)]
        self._costs = _least_of([costs for _, costs in self._recent])
        self._due, self._pause = now + self._pause, min(2 * self._pause, MEASURE_EVERY_SECONDS)


def _least_of(found: Sequence[TrapCosts]) -> TrapCosts:
    """Kind by kind, of those that were measured; without any, the newest."""
    measured = [each for each in found if each.measured]
    if not measured:
        return found[-1]
    return TrapCosts(
        min(each.emulated for each in measured),
        min(each.stepped for each in measured),
        min(each.exit for each in measured),
        measured=True,
    )


current_costs = _Costs()
