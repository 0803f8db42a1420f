"""A page of machine code with functions to be trapped in, so that calibrating needs no compiler.

A uprobe belongs to a file and hits every process that maps it. This file is nobody else's: it lives
in memory (memfd_create(2)) and only the agent maps it.

Each routine is `run(n)`, which calls one small function n times. What the kernel does with a trap
depends on the instruction under the breakpoint, so there is one function for each case:

- `emulated`: the kernel carries the instruction out itself (x86-64: push, nop, jumps, calls,
  arch/x86/kernel/uprobes.c; arm64: branches, arch/arm64/kernel/probes/decode-insn.c);
- `stepped`: it is run in a copy with single-stepping, a second trap (everything else);
- `exit`: the return instruction: stepped on x86-64, emulated on arm64.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["emulated", "stepped", "exit"]
KINDS: tuple[Kind, ...] = ("emulated", "stepped", "exit")

PAGE_BYTES = 4096
_ROUTINE_BYTES = 64
_FUNCTION_AT = 32  # within a routine
_MFD_CLOEXEC, _MFD_EXEC = 0x1, 0x10


@dataclass(frozen=True, slots=True)
class Architecture:
    """`loop`: n in the first argument; calls what lies _FUNCTION_AT bytes after its start.

    `bodies`: per kind the function's code and the offset in it of the instruction to trap at.
    """

    loop: bytes
    bodies: dict[Kind, tuple[bytes, int]]


X86_64 = Architecture(
    # call +27; dec rdi; jne -10; ret
    bytes.fromhex("e81b000000 48ffcf 75f6 c3"),
    {
        "emulated": (bytes.fromhex("55 5d c3"), 0),  # push rbp; pop rbp; ret
        "stepped": (bytes.fromhex("4883ec08 4883c408 c3"), 0),  # sub rsp,8; add rsp,8; ret
        "exit": (bytes.fromhex("55 5d c3"), 2),
    },
)
ARM64 = Architecture(
    # mov x9,x30; bl +28; subs x0,x0,#1; b.ne -8; mov x30,x9; ret
    b"".join(
        word.to_bytes(4, "little")
        for word in (0xAA1E03E9, 0x94000007, 0xF1000400, 0x54FFFFC1, 0xAA0903FE, 0xD65F03C0)
    ),
    {
        "emulated": (bytes.fromhex("01000014 c0035fd6"), 0),  # b +4; ret
        "stepped": (bytes.fromhex("e10300aa c0035fd6"), 0),  # mov x1,x0; ret
        "exit": (bytes.fromhex("1f2003d5 c0035fd6"), 4),  # nop; ret
    },
)
ARCHITECTURES = {"x86_64": X86_64, "aarch64": ARM64}


def assemble(architecture: Architecture) -> bytes:
    """The page: one routine per kind, in the order of KINDS."""
    page = bytearray(PAGE_BYTES)
    for index, kind in enumerate(KINDS):
        start = index * _ROUTINE_BYTES
        body = architecture.bodies[kind][0]
        page[start : start + len(architecture.loop)] = architecture.loop
        page[start + _FUNCTION_AT : start + _FUNCTION_AT + len(body)] = body
    return bytes(page)


class CodePage:
    """The page, mapped for execution. `close` unmaps it.

    Raises OSError where that is forbidden (SELinux, a kernel without memfd) or the machine's
    code is unknown.
    """

    def __init__(self) -> None:
        architecture = ARCHITECTURES.get(platform.machine())
        if architecture is None:
            raise OSError(f"no code for {platform.machine()}")
        self._architecture = architecture
        self.fd = _memory_file()
        try:
            os.write(self.fd, assemble(architecture))
            self._base = _map(self.fd)
        except BaseException:
            os.close(self.fd)
            raise

    @property
    def path(self) -> str:
        """What a uprobe is attached to."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def offset(self, kind: Kind) -> int:
        """Where in the file the instruction of a kind lies."""
        return (
            KINDS.index(kind) * _ROUTINE_BYTES + _FUNCTION_AT + self._architecture.bodies[kind][1]
        )

    def runner(self, kind: Kind) -> Callable[[int], None]:
        """A function that calls the function of a kind n times, n ≥ 1."""
        address = self._base + KINDS.index(kind) * _ROUTINE_BYTES
        run: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_long)(address)
        return run

    def close(self) -> None:
        """Unmap and forget. No uprobe may be attached any more, or it keeps the memory."""
        _libc().munmap(self._base, PAGE_BYTES)
        os.close(self.fd)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def _memory_file() -> int:
    name = "stallwatch-calibration"
    try:
        return os.memfd_create(name, _MFD_CLOEXEC | _MFD_EXEC)
    except OSError:  # before 6.3 there is no such flag, and none is needed
        return os.memfd_create(name, _MFD_CLOEXEC)


def _map(fd: int) -> int:
    """Map privately, as uprobes leave shared mappings alone; mmap.mmap does not tell where."""
    address = _libc().mmap(
        None, PAGE_BYTES, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0
    )
    if address is None or address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(address)
